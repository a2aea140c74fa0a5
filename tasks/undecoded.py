"""Finds the keys and values of a task that may travel undecoded: those that no user function looks at.

Source nodes that feed the same operators must agree, so the decision is made per connected part of the graph. Bytes
stay bytes only under a lossless serde, and only if all sinks and stores they reach use that same serde.

A store of windows or sessions has its windowed keys as bytes, too, in the very form of the topics that they are written
to. So an aggregate in windows can forward them undecoded if a record's own key could be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from penstock.common.extractors import FailOnInvalidTimestamp
from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder
from penstock.state.windowed.expiring_store import ExpiringStoreBuilder
from penstock.topology.physical.operators.operator import Operator
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

    def made_key(node: Node) -> Serde[Any] | None:
        if isinstance(node, SourceNode):
            return _if_lossless(node.key_serde)
        if isinstance(node, ProcessorNode) and node.operator.makes_windowed_keys:
            return _of_windowed_keys(stores[node.operator.stores[0]])
        return None

    def read_value(node: Node) -> Serde[Any] | None:
        return _if_lossless(node.value_serde) if isinstance(node, SourceNode) else None

    return Undecoded(
        _stay_bytes(nodes, children, lambda operator: operator.keeps_key, made_key, key_passes),
        _stay_bytes(nodes, children, lambda operator: operator.keeps_value, read_value, value_passes),
    )


def _if_lossless(serde: Serde[Any] | None) -> Serde[Any] | None:
    return serde if serde is not None and serde.lossless else None


def _of_windowed_keys(builder: AnyStoreBuilder) -> Serde[Any] | None:
    """Returns the serde of the windowed keys of a store, if their bytes may be used in place of them; else None."""
    if isinstance(builder, ExpiringStoreBuilder) and builder.key_serde is not None and builder.key_serde.lossless:
        return builder.windowed_key_serde(builder.key_serde)
    return None


def _plain(node: SourceNode | SinkNode) -> bool:
    """Returns True if no extractor or partitioner looks at the record."""
    if isinstance(node, SourceNode):
        return type(node.timestamp_extractor) is FailOnInvalidTimestamp  # a subclass may look at the record
    return isinstance(node.topic, str) and node.partitioner is None


def _stay_bytes(
    nodes: Sequence[Node],
    children: Children,
    keeps: Callable[[Operator], bool],
    serde_of: Callable[[Node], Serde[Any] | None],
    passes: Callable[[Node, Serde[Any]], bool],
) -> dict[str, Serde[Any]]:
    """Returns the serdes of nodes that get bytes. ``serde_of``: the serde of bytes that a node forwards, else None."""
    changers = {node.name: node for node in nodes if isinstance(node, ProcessorNode) and not keeps(node.operator)}
    entering: dict[str, list[Serde[Any] | None]] = {
        node.name: [serde_of(node)] for node in nodes if isinstance(node, SourceNode)
    }
    for name, changer in changers.items():
        for child in children[name]:
            entering.setdefault(child.name, []).append(serde_of(changer))
    found: dict[str, Serde[Any]] = {}
    for part in _parts(nodes, children, changers.keys()):
        # A node that receives an object from one side can have no bytes from another.
        serdes = [serde for node in part for serde in entering.get(node.name, ())]
        serde = serdes[0] if serdes else None
        if serde is None or any(other != serde for other in serdes):
            continue
        if all(passes(node, serde) for node in part):
            found.update((node.name, serde) for node in part)
    return found


def _parts(nodes: Sequence[Node], children: Children, changers: Set[str]) -> list[list[Node]]:
    """Returns nodes joined by edges; those below one of ``changers`` are joined to each other, but not to it."""
    groups = NodeGroups()
    for node in nodes:
        groups.add(node.name)
    for node in nodes:
        joined = [child.name for child in children[node.name]]
        if joined:
            groups.unite(joined[0] if node.name in changers else node.name, joined)
    by_name = {node.name: node for node in nodes}
    return [[by_name[name] for name in group] for group in groups.numbered()]
