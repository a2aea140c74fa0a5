"""The order in which sub-topologies run: after those that write what they read, or together with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from penstock.topology.physical.topology import SinkNode, Subtopology, Topology


@dataclass(frozen=True)
class StageSubtopologies:
    """The sub-topologies that run in one stage: a single one, or those of a cycle, which write to each other or to
    themselves.

    ``written`` are the repartition topics that they write, without the application's prefix, and ``inner`` those of
    them that they also read, which only those of a cycle do.
    """

    subtopologies: tuple[Subtopology, ...]
    written: frozenset[str]
    inner: frozenset[str]


def in_order(topology: Topology) -> tuple[StageSubtopologies, ...]:
    """Returns all sub-topologies that read something, each after those that write its repartition topics.

    A foreign-key join makes a cycle of the sub-topologies of its two tables: the left one sends subscriptions, the
    other one responds. Joins in a chain share sub-topologies, and so they are one cycle.
    """
    subtopologies = {sub.id: sub for sub in topology.subtopologies if sub.sources}
    before = _writers(subtopologies.values())
    upstream = {number: _upstream(number, before) for number in subtopologies}
    cycle_of = {
        number: tuple(sorted({number, *(other for other in upstream[number] if number in upstream[other])}))
        for number in subtopologies
    }
    before_cycle = {
        cycle: {cycle_of[writer] for number in cycle for writer in before[number]} - {cycle}
        for cycle in cycle_of.values()
    }
    ordered = TopologicalSorter(before_cycle).static_order()
    return tuple(_stage_of([subtopologies[number] for number in cycle]) for cycle in ordered)


def _stage_of(subtopologies: Sequence[Subtopology]) -> StageSubtopologies:
    written = frozenset(topic for sub in subtopologies for topic in _written(sub))
    read = {topic for sub in subtopologies for topic in _read(sub)}
    return StageSubtopologies(tuple(subtopologies), written, written & read)


def _writers(subtopologies: Collection[Subtopology]) -> dict[int, set[int]]:
    """Returns for each sub-topology those that write what it reads."""
    writers: dict[str, set[int]] = defaultdict(set)
    for sub in subtopologies:
        for topic in _written(sub):
            writers[topic].add(sub.id)
    return {sub.id: {writer for topic in _read(sub) for writer in writers[topic]} for sub in subtopologies}


def _read(sub: Subtopology) -> Iterable[str]:
    return (topic for source in sub.sources for topic in source.topics)


def _written(sub: Subtopology) -> Iterable[str]:
    """Returns the repartition topics that ``sub`` writes."""
    return (
        node.topic for node in sub.nodes if isinstance(node, SinkNode) and node.internal and isinstance(node.topic, str)
    )


def _upstream(number: int, before: Mapping[int, Iterable[int]]) -> set[int]:
    """Returns all sub-topologies from which records can come to ``number``: itself, too, if it is in a cycle."""
    found: set[int] = set()
    waiting = list(before[number])
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += before[other]
    return found
