"""The effect of null in each join: the tables of docs/JOINS.md, line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps

STRING, JSON = ps.Serdes.string(), ps.Serdes.json()
STRINGS: ps.Consumed[str, str] = ps.Consumed.with_(STRING, STRING)
NEAR = ps.JoinWindows.of_time_difference_with_no_grace(5)
Pair = list[str | None]
Join = Callable[[ps.StreamsBuilder], ps.KStream[str, Pair]]


def pair(one: str | None, other: str | None) -> Pair:
    return [one, other]


def streams(kind: str) -> Join:
    def join(builder: ps.StreamsBuilder) -> ps.KStream[str, Pair]:
        left: Any = builder.stream("left", STRINGS)
        joined: ps.KStream[str, Pair] = getattr(left, kind)(builder.stream("right", STRINGS), pair, NEAR)
        return joined

    return join


def with_table(kind: str) -> Join:
    def join(builder: ps.StreamsBuilder) -> ps.KStream[str, Pair]:
        left: Any = builder.stream("left", STRINGS)
        joined: ps.KStream[str, Pair] = getattr(left, kind)(builder.table("right", STRINGS), pair)
        return joined

    return join


def with_global_table(kind: str) -> Join:
    """Joins by a key that is the value's first letter, null for "-"."""

    def join(builder: ps.StreamsBuilder) -> ps.KStream[str, Pair]:
        left: Any = builder.stream("left", STRINGS)
        table = builder.global_table("right", STRINGS)
        joined: ps.KStream[str, Pair] = getattr(left, kind)(table, lambda v: None if v == "-" else v[0], pair)
        return joined

    return join


def tables(kind: str) -> Join:
    def join(builder: ps.StreamsBuilder) -> ps.KStream[str, Pair]:
        left: Any = builder.table("left", STRINGS)
        joined: ps.KTable[str, Pair] = getattr(left, kind)(builder.table("right", STRINGS), pair)
        return joined.to_stream()

    return join


def by_foreign_key(kind: str) -> Join:
    """Joins by a foreign key that is the value's first letter, None for "-"."""

    def join(builder: ps.StreamsBuilder) -> ps.KStream[str, Pair]:
        left: Any = builder.table("left", STRINGS)
        other = builder.table("right", STRINGS)
        joined: ps.KTable[str, Pair] = getattr(left, kind)(other, lambda v: None if v == "-" else v[0], pair)
        return joined.to_stream()

    return join


def played(join: Join, *records: tuple[str, str | None, str | None]) -> tuple[list[Any], int]:
    """Plays records (topic, key, value). Returns the results of the last one alone, and the number it dropped."""
    builder = ps.StreamsBuilder()
    join(builder).to("out", ps.Produced.with_(STRING, JSON))
    with ps.TopologyTestDriver(builder.build(), {"default.value.serde": JSON}) as driver:
        inputs = {topic: driver.create_input_topic(topic, STRING, STRING) for topic in ("left", "right")}
        out = driver.create_output_topic("out", STRING, JSON)
        dropped = 0
        for time, (topic, key, value) in enumerate(records):
            out.read_values_to_list()
            dropped = driver.metrics().dropped_records_total
            inputs[topic].pipe_input(key, value, time)
        return out.read_key_values_to_list(), driver.metrics().dropped_records_total - dropped


DROPPED: tuple[list[Any], int] = ([], 1)
LEFT_NULL_KEY, RIGHT_NULL_KEY = ("left", None, "v"), ("right", None, "v")
LEFT_NULL_VALUE, RIGHT_NULL_VALUE = ("left", "k", None), ("right", "k", None)


@pytest.mark.parametrize(
    ("join", "record", "expected"),
    [
        (streams("join"), LEFT_NULL_KEY, DROPPED),
        (streams("join"), RIGHT_NULL_KEY, DROPPED),
        (streams("left_join"), LEFT_NULL_KEY, ([(None, ["v", None])], 0)),
        (streams("left_join"), RIGHT_NULL_KEY, DROPPED),
        (streams("outer_join"), LEFT_NULL_KEY, ([(None, ["v", None])], 0)),
        (streams("outer_join"), RIGHT_NULL_KEY, ([(None, [None, "v"])], 0)),
        *[
            (streams(kind), record, DROPPED)
            for kind in ("join", "left_join", "outer_join")
            for record in (LEFT_NULL_VALUE, RIGHT_NULL_VALUE)
        ],
        (with_table("join"), LEFT_NULL_KEY, DROPPED),
        (with_table("left_join"), LEFT_NULL_KEY, ([(None, ["v", None])], 0)),
        (with_table("join"), LEFT_NULL_VALUE, DROPPED),
        (with_table("left_join"), LEFT_NULL_VALUE, DROPPED),
        (with_global_table("join"), ("left", "k", "-"), DROPPED),
        (with_global_table("left_join"), ("left", "k", "-"), ([("k", ["-", None])], 0)),
        (with_global_table("left_join"), LEFT_NULL_KEY, ([(None, ["v", None])], 0)),
        (with_global_table("join"), LEFT_NULL_VALUE, DROPPED),
        (with_global_table("left_join"), LEFT_NULL_VALUE, DROPPED),
        *[
            (join, RIGHT_NULL_KEY, DROPPED)
            for join in (with_table("join"), with_global_table("join"), tables("outer_join"), by_foreign_key("join"))
        ],
        (by_foreign_key("join"), ("left", "k", "-"), DROPPED),
        (by_foreign_key("left_join"), ("left", "k", "-"), ([("k", ["-", None])], 0)),
    ],
)
def test_a_null_alone(join: Join, record: Any, expected: tuple[list[Any], int]) -> None:
    assert played(join, record) == expected


def test_a_foreign_key_that_becomes_none_deletes_what_was_joined() -> None:
    found, dropped = played(by_foreign_key("join"), ("right", "a", "A"), ("left", "k", "a"), ("left", "k", "-"))
    assert (found, dropped) == ([("k", None)], 1)


LEFT, RIGHT = ("left", "k", "1"), ("right", "k", "2")
NO_LEFT, NO_RIGHT = LEFT_NULL_VALUE, RIGHT_NULL_VALUE
DELETION: list[Any] = [("k", None)]


def result(one: str | None, other: str | None) -> list[Any]:
    return [("k", [one, other])]


@pytest.mark.parametrize(
    ("kind", "update", "before", "expected"),
    [
        ("join", LEFT, [RIGHT], result("1", "2")),
        ("join", LEFT, [], []),
        ("join", RIGHT, [LEFT], result("1", "2")),
        ("join", RIGHT, [], []),
        ("join", NO_LEFT, [LEFT, RIGHT], DELETION),
        ("join", NO_LEFT, [LEFT], []),
        ("join", NO_RIGHT, [LEFT, RIGHT], DELETION),
        ("join", NO_RIGHT, [RIGHT], []),
        ("left_join", LEFT, [RIGHT], result("1", "2")),
        ("left_join", LEFT, [], result("1", None)),
        ("left_join", RIGHT, [LEFT], result("1", "2")),
        ("left_join", RIGHT, [], []),
        ("left_join", NO_LEFT, [LEFT, RIGHT], DELETION),
        ("left_join", NO_LEFT, [LEFT], DELETION),
        ("left_join", NO_RIGHT, [LEFT, RIGHT], result("1", None)),
        ("left_join", NO_RIGHT, [RIGHT], []),
        ("outer_join", LEFT, [], result("1", None)),
        ("outer_join", RIGHT, [], result(None, "2")),
        ("outer_join", LEFT, [RIGHT], result("1", "2")),
        ("outer_join", NO_LEFT, [LEFT, RIGHT], result(None, "2")),
        ("outer_join", NO_LEFT, [LEFT], DELETION),
        ("outer_join", NO_RIGHT, [LEFT, RIGHT], result("1", None)),
        ("outer_join", NO_RIGHT, [RIGHT], DELETION),
    ],
)
def test_an_update_of_a_table(kind: str, update: Any, before: list[Any], expected: list[Any]) -> None:
    found, _ = played(tables(kind), *before, update)
    assert found == expected
