"""A function of the value alone does what the same function of key and value does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.errors import ProcessingError
from penstock.common.serdes import Serdes
from penstock.topology.dsl.branched import Branched
from penstock.topology.dsl.kstream import KStream
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Produced
from tests.tasks.bench import STRINGS, Bench, Sent

OUT: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.string())
ROWS = [("a", "apple", 1), ("b", "pear", 2), ("c", "", 3), ("a", "plum", 4), ("b", "apple", 5)]

Predicate = Callable[..., bool]


def to(topic: str) -> Branched[Any, Any]:
    return Branched.with_consumer(lambda branch: branch.to(topic, OUT))


def joined(table: KTable[Any, Any], stream: KStream[Any, Any]) -> None:
    stream.join(table, lambda value, other: f"{value} {other}").to("out", OUT)


PROGRAMS: dict[str, Callable[[KStream[Any, Any], Predicate], object]] = {
    "filter": lambda s, f: s.filter(f).to("out", OUT),
    "filter_not": lambda s, f: s.filter_not(f).to("out", OUT),
    "peek": lambda s, f: s.peek(f).to("out", OUT),
    "for_each": lambda s, f: s.for_each(f),
    "branch": lambda s, f: s.split().branch(f, to("out")).default_branch(to("rest")),
    "branch beside one of keys": lambda s, f: (
        s.split().branch(lambda k, v: k == "b", to("b")).branch(f, to("out")).default_branch(to("rest"))
    ),
    "select_key": lambda s, f: (
        s.select_key(f).map_values(lambda k, v: f"{k} {v}").map(lambda k, v: (v, v)).to("out", OUT)
    ),
    "filter of a table": lambda s, f: s.to_table().filter(f).to_stream().to("out", OUT),
    "filter_not of a table": lambda s, f: s.to_table().filter_not(f).to_stream().to("out", OUT),
    "filter kept in a store": lambda s, f: s.to_table().filter(f, Materialized.as_("kept")).to_stream().to("out", OUT),
    "join with a filtered table": lambda s, f: joined(s.to_table(Materialized.as_("rows")).filter(f), s),
    "to_stream": lambda s, f: s.to_table().to_stream(f).map(lambda k, v: (f"{k}", v)).to("out", OUT),
}


def sent(name: str, function: Predicate) -> list[Sent]:
    builder = StreamsBuilder()
    PROGRAMS[name](builder.stream("in", STRINGS), function)
    bench = Bench(builder)
    return [*bench.feed("in", *ROWS), *bench.commit()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_of_the_value_does_what_the_same_of_key_and_value_does(name: str) -> None:
    by_value: list[str] = []
    by_both: list[str] = []

    def of_value(value: str) -> bool:
        by_value.append(value)
        return value.startswith("p")

    def of_both(key: str, value: str) -> bool:
        by_both.append(value)
        return value.startswith("p")

    assert sent(name, of_value) == sent(name, of_both)
    assert by_value == by_both
    assert by_value, "it was called"


@pytest.mark.parametrize("name", PROGRAMS)
def test_when_it_raises_the_error_reports_the_key_all_the_same(name: str) -> None:
    def fails(value: str) -> bool:
        return len(value) == 1 // 0

    with pytest.raises(ProcessingError) as raised:
        sent(name, fails)
    assert raised.value.key == "a"
    assert raised.value.offset == 0


def test_an_action_that_takes_any_number_of_arguments_gets_key_and_value() -> None:
    seen: list[tuple[Any, ...]] = []
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).peek(lambda *given: seen.append(given))
    Bench(builder).feed("in", ("k", "v", 1))
    assert seen == [("k", "v")]
