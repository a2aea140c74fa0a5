"""Topics whose records meet by their keys in the stores of a sub-topology: in joins, aggregates and tables.

Records of one key meet only if all of these topics give the key to the same partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.topology.physical.key_flow import nodes_above, topics_with_partitioners
from penstock.topology.physical.topology import Node, ProcessorNode, SourceNode, Topology, internal_topic


def meeting_topics(nodes: Iterable[Node]) -> tuple[frozenset[str], ...]:
    """Returns the topics whose keys reach a store unchanged, for each store that operators use by the key of their
    records. Several topics of one store are joined, or merged."""
    by_name = {node.name: node for node in nodes}
    stores: dict[str, set[str]] = {}
    for node in by_name.values():
        if isinstance(node, ProcessorNode) and not node.operator.runs_user_objects:
            for store in node.stores:
                stores.setdefault(store, set()).update(_topics_above(node, by_name))
    return tuple(sorted({frozenset(topics) for topics in stores.values() if topics}, key=sorted))


def topics_by_chosen_partitioners(topology: Topology, application_id: str) -> frozenset[str]:
    """Returns the topics, by their names in Kafka, that ``topology`` itself writes by a partitioner that is not
    Kafka's."""
    return frozenset(
        internal_topic(application_id, topic) if internal else topic
        for topic, internal in topics_with_partitioners(topology)
    )


def _topics_above(node: ProcessorNode, by_name: Mapping[str, Node]) -> Iterator[str]:
    # Also through a wrapped operator: its wrapper may change keys, but rarely does, and these topics are only compared.
    above = nodes_above([node], by_name, lambda each: each.operator.keeps_key)
    return (topic for each in above if isinstance(each, SourceNode) for topic in each.topics)
