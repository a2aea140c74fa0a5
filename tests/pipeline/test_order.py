"""The sub-topologies of a topology that run together in a stage of a backfill, and the order of the stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

import penstock as ps
from penstock.pipeline.backfill.order import in_order
from penstock.topology.physical.topology import SinkNode, SourceNode, Subtopology, Topology
from tests.pipeline.topologies import STRING

STRINGS = ps.Consumed.with_(STRING, STRING)
GROUPED = ps.Grouped.with_(STRING, STRING)
Table = ps.KTable[str, str]


def joined(left: Table, right: Table) -> Table:
    kept: ps.Materialized[str, str] = ps.Materialized.with_(STRING, STRING)
    return left.join(right, lambda value: value, lambda value, other: value + other, materialized=kept)


def one_join(table: Callable[[str], Table]) -> None:
    joined(table("left"), table("right"))


def of_a_table_with_itself(table: Callable[[str], Table]) -> None:
    people = table("people")
    joined(people, people)


def one_behind_the_other(table: Callable[[str], Table]) -> None:
    joined(joined(table("left"), table("right")), table("third"))


def into_the_other_side(table: Callable[[str], Table]) -> None:
    joined(table("third"), joined(table("left"), table("right")))


def into_an_aggregate(table: Callable[[str], Table]) -> None:
    joined(table("left"), table("right")).to_stream().group_by(lambda _, value: value, GROUPED).count()


def of_an_aggregate(table: Callable[[str], Table]) -> None:
    counted = table("left").to_stream().group_by(lambda _, value: value, GROUPED).reduce(lambda _, value: value)
    joined(counted, table("right"))


def with_an_aggregate_between(table: Callable[[str], Table]) -> None:
    first = joined(table("left"), table("right")).to_stream()
    joined(first.group_by(lambda _, value: value, GROUPED).reduce(lambda _, value: value), table("third"))


def side_by_side(table: Callable[[str], Table]) -> None:
    joined(table("left"), table("right"))
    joined(table("third"), table("fourth"))


def both_ways(table: Callable[[str], Table]) -> None:
    left, right = table("left"), table("right")
    joined(left, right)
    joined(right, left)


@pytest.mark.parametrize(
    ("program", "stages"),
    [
        (one_join, [{"left", "right"}]),
        (of_a_table_with_itself, [{"people"}]),
        (one_behind_the_other, [{"left", "right", "third"}]),
        (into_the_other_side, [{"left", "right", "third"}]),
        (into_an_aggregate, [{"left", "right"}, set()]),
        (of_an_aggregate, [{"left"}, {"right"}]),
        (with_an_aggregate_between, [{"left", "right"}, {"third"}]),
        (side_by_side, [{"left", "right"}, {"third", "fourth"}]),
        (both_ways, [{"left", "right"}]),
    ],
)
def test_subtopologies_that_a_foreign_key_join_ties_together_are_one_stage(
    program: Callable[[Callable[[str], Table]], None], stages: list[set[str]]
) -> None:
    builder = ps.StreamsBuilder()
    program(lambda topic: builder.table(topic, STRINGS))
    topology = builder.build()
    planned = in_order(topology)
    read = [{t for sub in each.subtopologies for source in sub.sources for t in source.topics} for each in planned]
    assert [topics - topology.repartition_topics.keys() for topics in read] == stages
    for before, each in enumerate(planned):
        written_so_far = {topic for earlier in planned[:before] for topic in earlier.written}
        inside = read[before] & topology.repartition_topics.keys()
        assert each.inner == inside & each.written
        assert inside <= written_so_far | each.inner
    assert sorted(sub.id for each in planned for sub in each.subtopologies) == [s.id for s in topology.subtopologies]


Edges = dict[int, tuple[str, str]]
"""For each sub-topology, the topics that it reads and those that it writes, one letter each."""


def subtopologies(edges: Edges) -> Topology:
    def nodes(number: int, read: Iterable[str], written: Iterable[str]) -> Subtopology:
        sources = [SourceNode(f"read {number} {topic}", (topic,), internal=True) for topic in read]
        sinks = [SinkNode(f"write {number} {topic}", (sources[0].name,), topic, internal=True) for topic in written]
        return Subtopology(number, (*sources, *sinks))

    return Topology(tuple(nodes(number, *topics) for number, topics in edges.items()))


@pytest.mark.parametrize(
    ("edges", "stages"),
    [
        ({}, []),
        ({0: ("a", "b"), 1: ("b", "c"), 2: ("c", "")}, [((0,), ""), ((1,), ""), ((2,), "")]),
        ({0: ("c", ""), 1: ("b", "c"), 2: ("a", "b")}, [((2,), ""), ((1,), ""), ((0,), "")]),
        ({0: ("ab", "bc"), 1: ("c", "")}, [((0,), "b"), ((1,), "")]),
        ({0: ("ab", "c"), 1: ("c", "d"), 2: ("d", "b")}, [((0, 1, 2), "bcd")]),
        # A sub-topology that reads from a cycle, or writes to it, is not part of it.
        ({0: ("x", "a"), 1: ("ab", "c"), 2: ("c", "bd"), 3: ("d", "")}, [((0,), ""), ((1, 2), "bc"), ((3,), "")]),
        ({0: ("ab", "cd"), 1: ("c", "b"), 2: ("de", "f"), 3: ("f", "e")}, [((0, 1), "bc"), ((2, 3), "ef")]),
    ],
)
def test_cycles_are_found_in_any_graph(edges: Edges, stages: list[tuple[tuple[int, ...], str]]) -> None:
    planned = in_order(subtopologies(edges))
    assert [(tuple(sub.id for sub in each.subtopologies), "".join(sorted(each.inner))) for each in planned] == stages


def test_topics_of_the_users_are_read_from_kafka_and_tie_nothing_together() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", STRINGS).to("again", ps.Produced.with_(STRING, STRING))
    builder.stream("again", STRINGS).to("in", ps.Produced.with_(STRING, STRING))
    assert [(len(each.subtopologies), each.inner) for each in in_order(builder.build())] == [(1, frozenset())] * 2
