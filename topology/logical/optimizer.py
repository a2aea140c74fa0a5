"""Rewrites the logical graph before it is written: ``topology.optimization`` and what Kafka Streams always does.

Every rewrite keeps the results; names of topics may change, so switching an optimisation on or off is, as in Kafka
Streams, a change of the application that needs a reset.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from penstock.common.errors import TopologyError
from penstock.topology.logical.graph import (
    LogicalGraph,
    LogicalNode,
    Repartition,
    StreamSourceNode,
    TableSourceNode,
    first_ancestor,
    new_repartition,
)
from penstock.topology.logical.stream_joins import keep_one_store_for_self_joins

REUSE_SOURCE_TOPICS = "reuse.ktable.source.topics"
MERGE_REPARTITION_TOPICS = "merge.repartition.topics"
SINGLE_STORE_SELF_JOIN = "single.store.self.join"


def optimize(graph: LogicalGraph, optimizations: Collection[str]) -> None:
    """Rewrite ``graph`` in place. Raises TopologyError if two sources overlap without being equal."""
    _merge_equal_sources(graph)
    if REUSE_SOURCE_TOPICS in optimizations:
        _reuse_source_topics(graph)
    if MERGE_REPARTITION_TOPICS in optimizations:
        _merge_repartition_topics(graph)
    if SINGLE_STORE_SELF_JOIN in optimizations:
        keep_one_store_for_self_joins(graph)
    _drop_null_keys(graph)


def _merge_equal_sources(graph: LogicalGraph) -> None:
    """Merge two streams of the same topics into one source with the children of both."""
    reader_of: dict[str | re.Pattern[str], StreamSourceNode] = {}
    for source in list(graph.root.children):
        if not isinstance(source, StreamSourceNode):
            continue
        for topic in source.topics if source.pattern is None else (source.pattern,):
            first = reader_of.setdefault(topic, source)
            if first is not source:
                _check_mergeable(first, source, topic)
                _merge_source(graph, first, source)


def _check_mergeable(first: StreamSourceNode, second: StreamSourceNode, topic: str | re.Pattern[str]) -> None:
    if set(first.topics) != set(second.topics):
        raise TopologyError(
            f"topic {topic!r} is read by two streams of different sets of topics, {sorted(first.topics)} and "
            f"{sorted(second.topics)}: make the sets equal or disjoint"
        )
    if first.consumed.offset_reset != second.consumed.offset_reset:
        raise TopologyError(
            f"topic {topic!r} is read by two streams with different offset resets, {first.consumed.offset_reset} and "
            f"{second.consumed.offset_reset}: choose one"
        )


def _merge_source(graph: LogicalGraph, kept: StreamSourceNode, dropped: StreamSourceNode) -> None:
    for child in list(dropped.children):
        dropped.remove_child(child)
        kept.add_child(child)
    graph.root.remove_child(dropped)
    _rename_copartitioned(graph, dropped.name, kept.name)


def _rename_copartitioned(graph: LogicalGraph, old: str, new: str) -> None:
    graph.copartitioned = [group - {old} | {new} if old in group else group for group in graph.copartitioned]


def _reuse_source_topics(graph: LogicalGraph) -> None:
    """Let the topic from which a table is read be its changelog."""
    for node in graph.nodes():
        if isinstance(node, TableSourceNode):
            node.reuse_source_topic = True


def _drop_null_keys(graph: LogicalGraph) -> None:
    """Let each repartition drop null keys, unless a join that keeps them is somewhere below it."""
    relaxed: set[LogicalNode] = set()
    for node in _children_first(graph):
        if any(child.relaxes_null_keys or child in relaxed for child in node.children):
            relaxed.add(node)
        if isinstance(node, Repartition):
            node.keeps_null_keys = node in relaxed


def _children_first(graph: LogicalGraph) -> list[LogicalNode]:
    remaining = {node: len(node.children) for node in graph.nodes()}
    done = [node for node, children in remaining.items() if not children]
    for node in done:
        for parent in node.parents:
            remaining[parent] -= 1
            if not remaining[parent]:
                done.append(parent)
    return done


def _merge_repartition_topics(graph: LogicalGraph) -> None:
    """Merge all automatic repartitions below one change of key into a single one directly below it.

    The first one's topic name is kept. A change of the value between the two keeps a repartition where it is
    (:class:`LogicalGraph` does not list it).
    """
    _hand_repartitions_to_merges(graph)
    for changer, followers in graph.repartitions_of.items():
        if not followers:
            continue
        first = next(iter(followers))
        merged = new_repartition(
            graph,
            first.topic.name,
            next((node.key_serde for node in followers if node.key_serde), None),
            next((node.value_serde for node in followers if node.value_serde), None),
        )
        merged.written_by = first.written_by
        merged.priority = changer.priority
        for follower in followers:
            _pull_up(changer, follower, merged)
            _rename_copartitioned(graph, follower.name, merged.name)
        changer.add_child(merged)


def _pull_up(changer: LogicalNode, follower: Repartition, merged: Repartition) -> None:
    below = first_ancestor(follower, lambda node: changer in node.parents)
    if below is None:
        raise TopologyError(
            f"merge.repartition.topics cannot move repartition topic {follower.topic.name!r} up to {changer.name!r}: "
            "another repartition was moved there first; build without that optimisation"
        )
    merged.add_child(below)
    changer.remove_child(below)
    for child in list(follower.children):
        for parent in list(follower.parents):
            parent.add_child(child)
    for parent in list(follower.parents):
        parent.remove_child(follower)
    for child in list(follower.children):
        follower.remove_child(child)


def _hand_repartitions_to_merges(graph: LogicalGraph) -> None:
    """If streams of several changed keys are merged before they are repartitioned, let the merge take their place."""
    changers_of: dict[LogicalNode, list[LogicalNode]] = {}
    for merge in graph.merges:
        changers_of[merge] = [
            changer
            for changer, followers in graph.repartitions_of.items()
            if all(_is_below(node, merge) for node in followers) and _is_below(merge, changer)
        ]
    replaced: set[LogicalNode] = set()
    for merge, changers in changers_of.items():
        graph.repartitions_of[merge] = {node: None for each in changers for node in graph.repartitions_of[each]}
        replaced.update(changers)
    for changer in replaced:
        del graph.repartitions_of[changer]


def _is_below(node: LogicalNode, ancestor: LogicalNode) -> bool:
    return first_ancestor(node, lambda each: ancestor in each.parents) is not None
