"""Avro records that a program reads by a schema of its own: logical types and unions, as in Java."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest

import penstock as ps
from penstock.common.serdes import bound

Config = dict[str, Any]
MICROS, MILLIS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("micros", "millis"))
UUIDS = {"type": "string", "logicalType": "uuid"}
TIME, KEY = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), UUID(int=7)


def schema(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Event", "fields": [{"name": "at", "type": kind}]}


def reread(writer: Any, value: Any, serde: ps.Serde[Any], config: Config) -> Any:
    """Returns a record with ``value``, of a field of type ``writer``, as ``serde`` reads it."""
    data = bound(ps.Serdes.avro(schema=schema(writer)), "events", "value", config).serialize({"at": value})
    return bound(serde, "events", "value", config).deserialize(data)


@pytest.mark.parametrize(
    ("writer", "value", "reader", "read"),
    [
        (MICROS, TIME, "long", 5_000_000),
        (MILLIS, TIME, ["null", "long"], 5_000),
        (["null", MILLIS], TIME, ["null", "long"], 5_000),
        ("long", 5_000_000, MICROS, TIME),
        (["null", "long"], 5_000_000, ["null", MICROS], TIME),
        (MILLIS, TIME, MICROS, TIME),  # each number has one meaning, that of its writer
        ("string", str(KEY), UUIDS, KEY),
        (UUIDS, KEY, "string", str(KEY)),
        ({"type": "array", "items": MILLIS}, [TIME], {"type": "array", "items": "long"}, [5_000]),
        ({"type": "map", "values": "long"}, {"a": 5_000}, {"type": "map", "values": MILLIS}, {"a": TIME}),
        (schema("long") | {"name": "In"}, {"at": 5_000}, schema(MILLIS) | {"name": "In"}, {"at": TIME}),
        (MILLIS, TIME, "double", 5_000.0),
        ({"type": "int", "logicalType": "date"}, date(1970, 1, 6), ["null", "long"], 5),
    ],
)
def test_the_readers_logical_type_holds(writer: Any, value: Any, reader: Any, read: Any, config: Config) -> None:
    assert reread(writer, value, ps.Serdes.avro(schema=schema(reader)), config) == {"at": read}


@dataclass
class Event:
    at: int


@dataclass
class Timed:
    at: datetime


@pytest.mark.parametrize(
    ("writer", "value", "reader"),
    [
        ("long", (1 << 60) + 1, ["null", "double", "long"]),  # as a double it would be another number
        (["null", "int"], 1, ["double", "int", "null"]),
        ("bytes", b"a", ["string", "bytes"]),
        (["null", "string"], "a", ["null", "bytes", "string"]),
    ],
)
def test_of_a_union_the_equal_type_is_taken(writer: Any, value: Any, reader: Any, config: Config) -> None:
    found = reread(writer, value, ps.Serdes.avro(schema=schema(reader)), config)
    assert found == {"at": value}
    assert type(found["at"]) is type(value)


def test_a_type_with_a_number_reads_times_of_another_program(config: Config) -> None:
    assert reread(MILLIS, TIME, ps.Serdes.avro(Event, schema=schema("long")), config) == Event(5_000)
    assert reread(MILLIS, TIME, ps.Serdes.avro(Event), config) == Event(5_000)


def test_a_number_of_a_type_may_become_a_time(config: Config) -> None:
    assert reread("long", 5_000, ps.Serdes.avro(Timed, schema=schema(MILLIS)), config) == Timed(TIME)
