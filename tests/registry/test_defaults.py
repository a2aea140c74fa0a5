"""Defaults of Avro fields that a record was written without."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

import penstock as ps
from penstock.common.serdes import bound

Config = dict[str, Any]
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double", "default": 1}]}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def field_of(kind: Any, default: Any, name: str = "more") -> dict[str, Any]:
    return {"name": name, "type": kind, "default": default}


def schema(*more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}, *more]}


def read_without(serde: ps.Serde[Any], config: Config) -> Any:
    """Returns a record as ``serde`` reads it, which was written before its schema had more than an id."""
    data = bound(ps.Serdes.avro(schema=schema()), "items", "value", config).serialize({"id": 1})
    return bound(serde, "items", "value", config).deserialize(data)


@pytest.mark.parametrize(
    ("kind", "default", "read"),
    [
        ("bytes", "\xff", b"\xff"),
        (["null", "string"], None, None),
        (["bytes", "null"], "a", b"a"),
        (MICROS, 1_000_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ({"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\x01", Decimal("0.01")),
        ({"type": "fixed", "name": "Two", "size": 2}, "ab", b"ab"),
        (POINT, {}, {"x": 1.0}),
        ({"type": "array", "items": "bytes"}, ["a"], [b"a"]),
        ({"type": "map", "values": MICROS}, {"a": 0}, {"a": datetime(1970, 1, 1, tzinfo=UTC)}),
    ],
)
def test_a_default_is_what_the_field_would_be_read_as(kind: Any, default: Any, read: Any, config: Config) -> None:
    found = read_without(ps.Serdes.avro(schema=schema(field_of(kind, default))), config)
    assert found == {"id": 1, "more": read}
    assert type(found["more"]) is type(read)


def test_a_default_that_is_a_list_belongs_to_one_record(config: Config) -> None:
    serde = ps.Serdes.avro(schema=schema(field_of({"type": "array", "items": "long"}, []), field_of(POINT, {}, "at")))
    first = read_without(serde, config)
    first["more"].append(5)
    first["at"]["x"] = 2.0
    assert read_without(serde, config) == {"id": 1, "more": [], "at": {"x": 1.0}}


@dataclass
class Item:
    id: int
    raw: bytes = b"\xff\x00"
    names: list[str] = field(default_factory=list)


def test_a_type_may_get_a_field_of_bytes(config: Config) -> None:
    assert read_without(ps.Serdes.avro(Item), config) == Item(1)


@dataclass
class Dated:
    id: int
    more: datetime


def test_a_type_may_get_a_time_by_a_schema_of_the_users(config: Config) -> None:
    serde = ps.Serdes.avro(Dated, schema=schema(field_of(MICROS, 0)))
    assert read_without(serde, config) == Dated(1, datetime(1970, 1, 1, tzinfo=UTC))


def test_a_dict_without_a_field_is_written_with_its_default(config: Config) -> None:
    serde = bound(ps.Serdes.avro(schema=schema(field_of("bytes", "\xff"))), "items", "value", config)
    assert serde.deserialize(serde.serialize({"id": 1})) == {"id": 1, "more": b"\xff"}


def test_lists_of_records_are_read_with_defaults(config: Config) -> None:
    def of(*more: dict[str, Any]) -> ps.Serde[Any]:
        return bound(ps.Serdes.avro(schema={"type": "array", "items": schema(*more)}), "items", "value", config)

    assert of(field_of("bytes", "a")).deserialize(of().serialize([{"id": 1}])) == [{"id": 1, "more": b"a"}]
