"""Programs that cannot run are refused when they are written or built, with a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.common.errors import ConfigError

Program = Callable[[ps.StreamsBuilder], object]


class Drop(ps.Processor[Any, Any, Any, Any]):
    """Forwards nothing."""

    def process(self, record: ps.Record[Any, Any]) -> None:
        """Drop."""


SHARED = Drop()
STRING = ps.Serdes.string()


def same_store_twice(builder: ps.StreamsBuilder) -> None:
    grouped = builder.stream("in").group_by_key()
    grouped.count(ps.Materialized.as_("s"))
    grouped.reduce(max, ps.Materialized.as_("s"))


def differing_counts(builder: ps.StreamsBuilder) -> None:
    left = builder.stream("a").repartition(ps.Repartitioned.as_("left").with_number_of_partitions(4))
    right = builder.stream("b").repartition(ps.Repartitioned.as_("right").with_number_of_partitions(5))
    left.join(right.to_table(), lambda one, other: one)


def same_repartition_twice(builder: ps.StreamsBuilder) -> None:
    builder.stream("a").repartition(ps.Repartitioned.as_("r"))
    builder.stream("b").repartition(ps.Repartitioned.as_("r"))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda b: None, "the topology is empty: it must read at least one topic"),
        (lambda b: (b.stream("a").peek(print, named="x"), b.stream("b").peek(print, named="x")), "are named 'x'"),
        (lambda b: (b.stream(["a", "b"]), b.stream(["b", "c"])), r"\['a', 'b'\] and \['b', 'c'\]"),
        (lambda b: (b.stream("a"), b.table("a")), "topic 'a' is already read by source"),
        (lambda b: (b.table("a"), b.table("a")), "topic 'a' is already read by source"),
        (
            lambda b: (b.stream("a"), b.stream("a", ps.Consumed.with_(offset_reset="latest"))),
            "different offset resets, None and latest",
        ),
        (
            lambda b: b.stream("a").process(Drop, "seen"),
            r"uses store 'seen', which does not exist.*stores so far: none",
        ),
        (same_store_twice, "two different stores are named 's'"),
        (same_repartition_twice, "two repartition topics are named 'r-repartition'"),
        (differing_counts, "left-repartition has 4, right-repartition has 5"),
    ],
)
def test_a_program_that_cannot_run_is_refused_by_build(program: Program, message: str) -> None:
    builder = ps.StreamsBuilder()
    program(builder)
    with pytest.raises(ps.TopologyError, match=message):
        builder.build()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.stream([]), "at least one topic"),
        (lambda b: b.stream("a b"), "illegal topic 'a b'"),
        (lambda b: b.stream("a").to(""), "illegal topic ''"),
        (lambda b: b.stream("a").to(7), "to: topic must be callable"),
        (lambda b: b.stream("a").filter("yes"), r"filter: predicate must be callable, not 'yes' \(str\)"),
        (lambda b: b.stream("a").filter_not(None), "filter_not: predicate must be callable"),
        (lambda b: b.stream("a").map(3), "map: mapper must be callable"),
        (lambda b: b.stream("a").flat_map({}), "flat_map: mapper must be callable"),
        (lambda b: b.stream("a").group_by("k"), "group_by: selector must be callable"),
        (lambda b: b.stream("a").group_by_key().aggregate(0, max), "aggregate: initializer must be callable"),
        (lambda b: b.stream("a").group_by_key().reduce(None), "reduce: reducer must be callable"),
        (lambda b: b.stream("a").split().branch(True), "branch: predicate must be callable"),
        (lambda b: b.stream("a").join("b", max), "join needs a KTable, a KStream or a GlobalKTable, not 'b'"),
        (
            lambda b: b.stream("a").left_join(b.table("b"), len),
            r"left_join takes f\(value, other\) or f\(key, value, other\)",
        ),
        (lambda b: b.stream("a").merge(b.table("b")), "merge needs a KStream"),
        (lambda b: b.stream("a").merge(ps.StreamsBuilder().stream("b")), "same StreamsBuilder"),
        (lambda b: b.stream("a").process(Drop()), "give a supplier that makes processors, such as the class Drop"),
        (lambda b: b.stream("a").process(lambda: SHARED), "returned the same processor twice"),
        (lambda b: b.stream("a").process(lambda: None), r"the supplier must make a Processor, not None"),
        (lambda b: b.stream("a").process(dict), "the supplier must make a Processor"),
        (
            lambda b: b.stream("a", STRING),
            r"stream needs a Consumed, not Serde\(string\) \(Serde\): pass Consumed.with_",
        ),
        (lambda b: b.table("a", ps.Materialized.as_("t")), "table needs a Consumed, not Materialized"),
        (lambda b: b.table("a", None, "t"), r"table needs a Materialized.*: pass Materialized.as_\('t'\)"),
        (lambda b: b.table("a").filter(max, "t"), r"filter needs a Materialized.*: pass Materialized.as_\('t'\)"),
        (lambda b: b.table("a").map_values(len, "t"), r"map_values needs a Materialized, not 't' \(str\)"),
        (lambda b: b.stream("a").to("b", STRING), r"to needs a Produced.*: pass Produced.with_\(...\)"),
        (lambda b: b.stream("a").repartition("r"), r"repartition needs a Repartitioned.*: pass Repartitioned.as_"),
        (lambda b: b.stream("a").group_by_key(STRING), "group_by_key needs a Grouped"),
        (lambda b: b.stream("a").group_by(max, "g"), r"group_by needs a Grouped.*: pass Grouped.as_\('g'\)"),
        (lambda b: b.stream("a").to_table("t"), "to_table needs a Materialized"),
        (lambda b: b.stream("a").left_join(b.table("b"), max, STRING), "left_join needs a Joined"),
        (lambda b: b.stream("a").group_by_key().count("n"), r"count needs a Materialized.*as_\('n'\)"),
        (lambda b: b.stream("a").group_by_key().reduce(max, STRING), "reduce needs a Materialized"),
        (lambda b: b.stream("a").filter(max, named=STRING), "name must be a string, not Serde"),
        (lambda b: b.add_state_store("seen"), "add_state_store needs a StoreBuilder"),
    ],
)
def test_a_wrong_argument_is_refused_by_the_call(call: Program, message: str) -> None:
    with pytest.raises(ps.TopologyError, match=message):
        call(ps.StreamsBuilder())


def test_an_unknown_optimisation_is_refused_with_those_there_are() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(ConfigError, match=r"fastest: allowed are none, all, merge\.repartition\.topics"):
        builder.build({"topology.optimization": "fastest"})
