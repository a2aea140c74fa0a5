"""Which keys and values of a task may travel undecoded: those that no user function looks at.

Source nodes that feed the same operators must agree, so the decision falls per connected part of the graph. Bytes stay
bytes only under a lossless serde, and only if all sinks and stores they reach use that same serde.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from penstock.common.extractors import FailOnInvalidTimestamp
from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.physical.operator import Operator
from penstock.topology.physical.subtopologies import NodeGroups
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, SourceNode

Children = Mapping[str, Sequence[Node]]


@dataclass(frozen=True)
class Undecoded:
    """Names of the nodes whose incoming keys, or values, are bytes, each with the serde that would decode them."""

    keys: Mapping[str, Serde[Any]]
    values: Mapping[str, Serde[Any]]


def find_undecoded(nodes: Sequence[Node], children: Children, stores: Mapping[str, AnyStoreBuilder]) -> Undecoded:
    """Decide for ``nodes``, whose serdes and extractors are already filled in from the configuration."""

    def key_passes(node: Node, serde: Serde[Any]) -> bool:
        if isinstance(node, ProcessorNode):
            operator = node.operator
            return not operator.sees_key and all(stores[name].key_serde == serde for name in operator.stores_under_key)
        return _plain(node) and node.key_serde == serde

    def value_passes(node: Node, serde: Serde[Any]) -> bool:
        if isinstance(node, ProcessorNode):
            return not node.operator.sees_value
        return _plain(node) and node.value_serde == serde

    return Undecoded(
        _stay_bytes(nodes, children, lambda operator: operator.keeps_key, lambda source: source.key_serde, key_passes),
        _stay_bytes(
            nodes, children, lambda operator: operator.keeps_value, lambda source: source.value_serde, value_passes
        ),
    )


def _plain(node: SourceNode | SinkNode) -> bool:
    """Whether no extractor or partitioner looks at the record."""
    if isinstance(node, SourceNode):
        return type(node.timestamp_extractor) is FailOnInvalidTimestamp  # a subclass may look at the record
    return isinstance(node.topic, str) and node.partitioner is None


def _stay_bytes(
    nodes: Sequence[Node],
    children: Children,
    keeps: Callable[[Operator], bool],
    serde_of: Callable[[SourceNode], Serde[Any] | None],
    passes: Callable[[Node, Serde[Any]], bool],
) -> dict[str, Serde[Any]]:
    changers = {node.name for node in nodes if isinstance(node, ProcessorNode) and not keeps(node.operator)}
    # What a changer forwards is an object: whoever receives it can have no bytes from other parents.
    receives_objects = {child.name for name in changers for child in children[name]}
    found: dict[str, Serde[Any]] = {}
    for part in _parts(nodes, children, changers):
        sources = [node for node in part if isinstance(node, SourceNode)]
        serde = serde_of(sources[0]) if sources else None
        if serde is None or not serde.lossless or any(node.name in receives_objects for node in part):
            continue
        if all(passes(node, serde) for node in part):
            found.update((node.name, serde) for node in part)
    return found


def _parts(nodes: Sequence[Node], children: Children, changers: Set[str]) -> list[list[Node]]:
    """Nodes joined by edges, except those behind ``changers``."""
    groups = NodeGroups()
    for node in nodes:
        groups.add(node.name)
    for node in nodes:
        if node.name not in changers:
            groups.unite(node.name, (child.name for child in children[node.name]))
    by_name = {node.name: node for node in nodes}
    return [[by_name[name] for name in group] for group in groups.numbered()]
