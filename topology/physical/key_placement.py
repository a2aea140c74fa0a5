"""Finds stores whose keys are where Kafka's default partitioner puts them, as far as the topology can prove it.

Any other store may have a key in any of its tasks. Its source topic may be written by programs with another partitioner
(that of librdkafka is CRC32), a sink may have a partitioner, or a processor may store under a key of its choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.common.serdes import Serde, bound
from penstock.topology.physical.key_flow import nodes_above, topics_with_partitioners
from penstock.topology.physical.topology import ProcessorNode, SourceNode, Subtopology, Topology


def topics_by_placed_store(
    topology: Topology, default_key_serde: Serde[Any] | None, partitions: Callable[[str], int], prefix: str
) -> dict[str, str]:
    """Returns each store whose row of a key is certain to be in the task that murmur2 of the key gives, and the
    repartition topic (its name in Kafka) from whose serde the key's bytes come.

    It is certain if every record that reaches the store comes, with its key unchanged, from a repartition topic that
    only this topology writes. The topic must have no partitioner of the user's, and as many ``partitions`` as there are
    tasks.
    """
    chosen = frozenset(topic for topic, internal in topics_with_partitioners(topology) if internal)
    placed: dict[str, str] = {}
    for sub in topology.subtopologies:
        tasks = max((partitions(topic) for source in sub.sources for topic in _names(source, prefix)), default=0)
        for store in sub.stores:
            sources = _sources_of(store.name, sub)
            if not sources or not all(source.internal and chosen.isdisjoint(source.topics) for source in sources):
                continue
            topics = [topic for source in sources for topic in _names(source, prefix)]
            serdes = [source.key_serde or default_key_serde for source in sources]
            same = _one_form(store.key_serde or default_key_serde, serdes, topics)
            if same and all(partitions(topic) == tasks for topic in topics):
                placed[store.name] = min(topics)
    return placed


def topics_that_feed(store: str, sub: Subtopology, prefix: str) -> frozenset[str]:
    """Returns the topics (their names in Kafka) whose records reach ``store`` with their keys unchanged; none if it may
    have other keys, too."""
    return frozenset(topic for source in _sources_of(store, sub) for topic in _names(source, prefix))


def _names(source: SourceNode, prefix: str) -> Iterable[str]:
    return (f"{prefix}{topic}" if source.internal else topic for topic in source.topics)


def _sources_of(store: str, sub: Subtopology) -> list[SourceNode]:
    """Returns the sources whose records reach ``store`` under their own keys; none if some may come under others."""
    nodes = {node.name: node for node in sub.nodes}
    writers = [node for node in sub.nodes if isinstance(node, ProcessorNode) and _may_write(node, store)]
    if not all(_writes_by_key(node, store) for node in writers):
        return []
    above = list(nodes_above(writers, nodes, _keeps_key))
    if not all(
        isinstance(node, SourceNode) or (isinstance(node, ProcessorNode) and _keeps_key(node)) for node in above
    ):
        return []
    return [node for node in above if isinstance(node, SourceNode)]


def _may_write(node: ProcessorNode, store: str) -> bool:
    return store in node.stores and store not in node.operator.stores_looked_into


def _writes_by_key(node: ProcessorNode, store: str) -> bool:
    operator = node.operator
    return store in operator.stores_under_key and not operator.runs_user_objects and not operator.wrapped


def _keeps_key(node: ProcessorNode) -> bool:
    # A wrapper may change keys, and where a key is must be certain here.
    return node.operator.keeps_key and not node.operator.wrapped


def _one_form(stored: Serde[Any] | None, produced: Iterable[Serde[Any] | None], topics: list[str]) -> bool:
    """True if keys have the same bytes in all topics, and are written by the store's serde."""
    if stored is None or any(serde != stored for serde in produced):
        return False
    return len(topics) == 1 or all(bound(stored, topic, "key") == stored for topic in topics)
