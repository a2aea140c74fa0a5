"""Programs that cannot run are refused when they are written or built, with a sentence that names the remedy."""

from __future__ import annotations

import re
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


class Idle(ps.Processor[Any, Any, Any, Any]):
    """Has no ``process``."""


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
        (lambda b: b.stream(re.compile(b"a.*")), "the pattern of topics must be one of text"),
        (lambda b: b.table(re.compile("a.*")), "only streams .* are read by a pattern"),
        (lambda b: b.global_table(re.compile("a.*")), "only streams .* are read by a pattern"),
        (lambda b: b.table(["a", "b"]), r"topic must be a string, not \['a', 'b'\]"),
        (lambda b: b.stream("a").to(""), "illegal topic ''"),
        (lambda b: b.stream("a").to(7), r"to: a topic that is no string must be callable, not 7 \(int\)"),
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
        (lambda b: b.stream("a").process(Idle), r"process: Idle must define process\(record\)"),
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


@pytest.mark.parametrize(
    ("windows", "supplier", "message"),
    [
        (
            ps.TimeWindows.of_size_with_no_grace(10),
            ps.Stores.persistent_window_store("s", 50, 5),
            "store s: its supplier has windows of 5 ms, the aggregate of 10 ms",
        ),
        (
            ps.SlidingWindows.of_time_difference_with_no_grace(10),
            ps.Stores.in_memory_window_store("s", 50, 20),
            "store s: its supplier has windows of 20 ms, the aggregate of 10 ms",
        ),
        (
            ps.TimeWindows.of_size_with_no_grace(10),
            ps.Stores.persistent_versioned_key_value_store("s", 50),
            "needs a window store, not a versioned store",
        ),
        (
            ps.SessionWindows.of_inactivity_gap_with_no_grace(10),
            ps.Stores.persistent_versioned_key_value_store("s", 50),
            "needs a session store, not a versioned store",
        ),
    ],
)
def test_a_windowed_table_refuses_a_store_that_does_not_fit_its_windows(
    windows: Any, supplier: Any, message: str
) -> None:
    windowed = ps.StreamsBuilder().stream("a").group_by_key().windowed_by(windows)
    with pytest.raises(ps.TopologyError, match=message):
        windowed.count(ps.Materialized.as_(supplier))


def test_a_negative_span_names_the_call_that_was_given_it() -> None:
    with pytest.raises(ValueError, match="Materialized: ttl may not be negative: -1 ms"):
        ps.Materialized.as_("s").with_ttl(-1)
    with pytest.raises(ValueError, match="SessionWindows: inactivity_gap may not be negative: -1 ms"):
        ps.SessionWindows.of_inactivity_gap_with_no_grace(-1)
    with pytest.raises(ValueError, match="deduplicate: within may not be negative: -1 ms"):
        ps.StreamsBuilder().stream("a").deduplicate(-1)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"ensure.explicit.internal.resource.name": True}, r"did you mean 'ensure\.explicit.*naming'\?"),
        ({"ensure.explicit.internal.resource.naming": "ture"}, r"naming.*\(got 'ture'\)"),
    ],
)
def test_build_refuses_a_key_and_a_value_that_it_would_pass_over(config: dict[str, Any], message: str) -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(ConfigError, match=message):
        builder.build(config)


def test_an_unknown_optimisation_is_refused_with_those_there_are() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(ConfigError, match=r"fastest: allowed are none, all, merge\.repartition\.topics"):
        builder.build({"topology.optimization": "fastest"})
