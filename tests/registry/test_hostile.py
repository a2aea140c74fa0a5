"""Bytes, schemas and references that nobody should send: none ends the process, blocks it, or takes its memory."""

from __future__ import annotations

import json
import pickle
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

import penstock as ps
from penstock.common.serdes import bound
from penstock.registry import connection
from penstock.registry.avro import avro_format
from penstock.registry.contracts import Reference, Schema
from penstock.registry.json_evolution import conflicts
from penstock.registry.serde import within
from tests.registry.messages import Order

Config = dict[str, Any]
LIST = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


def generic(config: Config) -> ps.Serde[ps.GenericRecord]:
    return bound(ps.Serdes.avro(), "items", "value", config)


def head(registry: ps.MockSchemaRegistry, schema: Any) -> bytes:
    """Returns the first bytes of a record, for a schema that somebody has registered."""
    return b"\0" + registry.register("any", Schema(json.dumps(schema)), False).to_bytes(4)


def zigzag(number: int) -> bytes:
    number, made = number << 1, bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def test_an_avro_record_that_is_nested_very_deeply_is_a_bad_record(
    config: Config, registry: ps.MockSchemaRegistry
) -> None:
    # The compiled reader overflows the stack from some 4,000 levels on, which ends the process.
    first = head(registry, LIST)
    assert generic(config).deserialize(first + b"\2" * 100 + b"\0") != {}
    for levels in (5_000, 1_000_000):
        with pytest.raises(ps.SerializationError, match="recursion") as caught:
            generic(config).deserialize(first + b"\2" * levels + b"\0")
        assert len("".join(traceback.format_exception(caught.value))) < 5_000  # it goes into a dead letter


def test_an_object_that_is_nested_very_deeply_is_not_written(config: Config, registry: ps.MockSchemaRegistry) -> None:
    value: dict[str, Any] = {"next": None}
    for _ in range(5_000):
        value = {"next": value}
    serde = bound(ps.Serdes.avro(schema=LIST), "items", "value", config)
    with pytest.raises(ps.SerializationError, match="recursion"):
        serde.serialize(value)


@pytest.mark.parametrize("items", ["null", {"type": "fixed", "size": 0, "name": "F"}, {**LIST, "fields": []}])
def test_an_array_whose_items_take_no_bytes_is_refused(
    items: Any, config: Config, registry: ps.MockSchemaRegistry
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": items}}]}
    with pytest.raises(ps.SerializationError, match="an array of items that take no bytes"):
        generic(config).deserialize(head(registry, schema) + zigzag(2**60) + b"\0")


def test_a_schema_that_is_nested_very_deeply_is_refused(config: Config, registry: ps.MockSchemaRegistry) -> None:
    schema: Any = "long"
    for _ in range(400):
        schema = {"type": "array", "items": schema}
    registry.answer_wrongly(7, Schema(json.dumps(schema)))
    with pytest.raises(ps.SerializationError, match="the schema is nested more than 300 deep"):
        generic(config).deserialize(b"\0\0\0\0\7\0")


def test_lengths_beyond_the_record_are_a_bad_record(config: Config, registry: ps.MockSchemaRegistry) -> None:
    first = head(registry, {"type": "record", "name": "R", "fields": [{"name": "a", "type": "bytes"}]})
    for length in (2**40, 2**62):
        with pytest.raises(ps.SerializationError, match="no record of that schema: EOFError"):
            generic(config).deserialize(first + zigzag(length) + b"abc")


def record_of(name: str, *types: str) -> str:
    fields = [{"name": f"f{index}", "type": each} for index, each in enumerate(types)]
    return json.dumps({"type": "record", "name": name, "fields": fields})


def test_references_that_meet_again_are_followed_once() -> None:
    # 2^60 ways lead to the last: each schema but that refers to both of the next level.
    asked: list[str] = []

    def referred(reference: Reference) -> Schema:
        asked.append(reference.subject)
        level = int(reference.name[1:-1])
        lower = [f"R{level - 1}a", f"R{level - 1}b"] if level else []
        return Schema(record_of(reference.name, *lower), "AVRO", tuple(Reference(each, each, 1) for each in lower))

    schema = Schema(record_of("Top", "R60a"), "AVRO", (Reference("R60a", "R60a", 1),))
    avro_format(None, None).writer(schema, b"", referred)
    assert len(asked) == len(set(asked)) == 121


def test_references_that_lead_back_are_followed_once() -> None:
    itself = Schema(record_of("R", "int"), "AVRO", (Reference("R", "r", 1),))
    assert avro_format(None, None).reader(itself, lambda _: itself)(b"\0\0\0\0\1\2") == {"f0": 1}


def test_a_union_of_records_that_others_define_is_read_and_written_with_the_name_of_each() -> None:
    texts = {name: record_of(name, "string") for name in ("A", "B")}
    union = Schema('["A", "B"]', "AVRO", tuple(Reference(name, name, 1) for name in texts))

    def referred(reference: Reference) -> Schema:
        return Schema(texts[reference.name])

    form, data = avro_format(None, None), b"\0\0\0\0\1\2\2x"
    record = form.reader(union, referred)(data)
    assert record == {"f0": "x"}
    assert pickle.loads(pickle.dumps(record)).name == "B"
    assert form.writer(union, data[:5], referred)(record) == data
    assert form.writer(union, data[:5], referred)(("A", {"f0": "x"})) == b"\0\0\0\0\1\0\2x"


def test_a_record_within_a_union_of_records_keeps_its_name(config: Config, registry: ps.MockSchemaRegistry) -> None:
    # Of two records with the same fields, fastavro writes the first, unless it is told which.
    union = {"name": "u", "type": ["null", json.loads(record_of("A", "string")), json.loads(record_of("B", "string"))]}
    data = head(registry, {"type": "record", "name": "R", "fields": [union]}) + b"\4\2x"
    record = generic(config).deserialize(data)
    assert record == {"u": ("B", {"f0": "x"})}
    assert generic(config).serialize(record) == data


def test_a_number_without_end_before_a_message_of_protobuf_is_a_bad_record(config: Config) -> None:
    serde = bound(ps.Serdes.protobuf(Order), "items", "value", config)
    with pytest.raises(ps.SerializationError, match="a number that has no end"):
        serde.deserialize(b"\0\0\0\0\1" + b"\xff" * 1_000_000)


@pytest.mark.parametrize("serde", [ps.Serdes.protobuf(Order), ps.Serdes.json_schema(dict[str, str])], ids=repr)
def test_nothing_is_kept_of_ids_that_need_no_schema(serde: ps.Serde[Any], config: Config) -> None:
    reader = bound(serde, "items", "value", config)
    record = reader.serialize({"a": "b"} if "json" in serde.name else Order())
    for schema_id in range(1000):
        reader.deserialize(b"\0" + schema_id.to_bytes(4) + record[5:])
    known = within(reader)
    assert known is not None
    assert known.records is not None
    assert not known.records._readers


def test_errors_about_an_absent_id_do_not_grow(config: Config, registry: ps.MockSchemaRegistry) -> None:
    registry.latency_ms = 0.01  # so that another thread asks, and the answer is kept
    serde, lengths = generic(config), set()
    for _ in range(20):
        with pytest.raises(ps.SerializationError, match="has no schema id 77") as caught:
            serde.deserialize(b"\0\0\0\0\x4d1")
        lengths.add(len(traceback.extract_tb(caught.value.__traceback__)))
    assert max(lengths) - min(lengths) < 3


def test_absent_ids_take_a_bounded_room(
    config: Config, registry: ps.MockSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_MOST_MISSING", 5)
    registry.latency_ms = 0.01
    serde = generic(config)
    for schema_id in range(50, 70):
        with pytest.raises(ps.SerializationError, match=f"has no schema id {schema_id}"):
            serde.deserialize(b"\0" + schema_id.to_bytes(4) + b"1")
    known = within(serde)
    assert known is not None
    assert known.records is not None
    assert len(known.records.connection._missing) == 5


@pytest.mark.parametrize("own", [{"$ref": "#"}, {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#"}}}])
def test_a_json_schema_that_refers_to_itself_is_compared(own: Any) -> None:
    assert conflicts(json.dumps(own), json.dumps({"type": "string"})) == []
    assert conflicts(json.dumps({"type": "string"}), json.dumps(own)) != []


@contextmanager
def server() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/a.json", asked
        http.shutdown()


@pytest.mark.parametrize("write", [True, False])
def test_a_json_schema_fetches_nothing(write: bool, config: Config) -> None:
    with server() as (url, asked):
        serde = bound(ps.Serdes.json_schema(schema={"$ref": url}), "items", "value", config)
        call: Callable[[], Any] = (lambda: serde.serialize(1)) if write else lambda: serde.deserialize(b"\0\0\0\0\0011")
        with pytest.raises(ps.SerializationError, match="which is not within it: put it into its definitions"):
            call()
    assert asked == []
