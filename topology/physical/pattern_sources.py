"""Sources that read all topics whose names match a pattern.

A topology holds the pattern alone: the topics that match are found whenever its tasks are planned. From then on each
task knows its own by the partitions that it is given to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from penstock.common.errors import MissingTopicError, TopologyError
from penstock.topology.physical.topology import (
    Node,
    SourceNode,
    Subtopology,
    Topology,
    changelog_topic,
    internal_topic,
)

_OF_KAFKA = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})


def has_patterns(sub: Subtopology) -> bool:
    """Returns True if one of its sources has a pattern."""
    return any(source.pattern is not None for source in sub.sources)


def with_matched_topics(
    topology: Topology, application_id: str, existing: Iterable[str], none_may_match: bool = False
) -> Topology:
    """Returns ``topology`` with the existing topics that match named in pattern sources and co-partition groups.

    Neither Kafka's own topics match nor the application's internal ones. Raises MissingTopicError if nothing
    matches, unless ``none_may_match``, and TopologyError for a topic that two patterns match.
    """
    if not any(map(has_patterns, topology.subtopologies)):
        return topology
    internal = {internal_topic(application_id, name) for name in topology.repartition_topics}
    internal |= {changelog_topic(application_id, store) or "" for store in topology.store_builders.values()}
    candidates = sorted(set(existing) - internal - _OF_KAFKA)
    reader_of: dict[str, str] = {}

    def matched(source: SourceNode) -> tuple[str, ...]:
        found = tuple(filter(_matches(source), candidates))
        if not found and not none_may_match:
            raise MissingTopicError(
                f"application {application_id!r}: no topic matches the pattern {_text(source)} of source "
                f"{source.name!r}: create one first. More of them may come while the application runs"
            )
        for topic in found:
            if (other := reader_of.setdefault(topic, source.name)) != source.name:
                raise TopologyError(
                    f"topic {topic!r} matches the patterns of two sources, {other!r} and {source.name!r}: change one "
                    "of the patterns"
                )
        return found

    subtopologies = tuple(_with_topics(sub, matched) for sub in topology.subtopologies)
    topics = {source.name: source.topics for sub in subtopologies for source in sub.sources}
    joined = (
        frozenset(topic for name in names for topic in topics.get(name, ())) for names in topology.copartitioned_sources
    )
    groups = (*topology.copartition_groups, *(group for group in joined if len(group) > 1))
    return replace(topology.as_value, subtopologies=subtopologies, copartition_groups=groups)


def with_topics_read(sub: Subtopology, topics: Iterable[str]) -> Subtopology:
    """Returns ``sub`` as a task that reads ``topics`` has it: its pattern sources name those that match."""
    there = sorted(topics)
    return _with_topics(sub, lambda source: tuple(filter(_matches(source), there)))


def check_pattern(source: SourceNode, others: Iterable[SourceNode]) -> None:
    """Raises TopologyError if a topic of one source would also be read by another."""
    for other in others:
        for one, named in ((source, other), (other, source)):
            if one.pattern is not None and (topic := next(filter(_matches(one), named.topics), None)) is not None:
                raise TopologyError(
                    f"the pattern {_text(one)} of source {one.name!r} matches topic {topic!r}, which source "
                    f"{named.name!r} reads by its name: change the pattern"
                )


def _matches(source: SourceNode) -> Callable[[str], bool]:
    pattern = source.pattern
    assert pattern is not None
    return lambda topic: pattern.fullmatch(topic) is not None


def _text(source: SourceNode) -> str:
    assert source.pattern is not None
    return repr(source.pattern.pattern)


def _with_topics(sub: Subtopology, topics_of: Callable[[SourceNode], tuple[str, ...]]) -> Subtopology:
    if not has_patterns(sub):
        return sub

    def resolved(node: Node) -> Node:
        is_pattern = isinstance(node, SourceNode) and node.pattern is not None
        return replace(node, topics=topics_of(node)) if isinstance(node, SourceNode) and is_pattern else node

    return replace(sub, nodes=tuple(map(resolved, sub.nodes)))
