"""Which keys and values of a task may travel undecoded: those that no user function looks at.

Source nodes that feed the same operators must agree, so the decision falls per connected part of the graph. Bytes stay
bytes only under a lossless serde, and only if all sinks and stores they reach use that same serde.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from penstock.common.extractors import FailOnInvalidTimestamp
from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.physical.operators import (
    Branch,
    DropNullKeys,
    Filter,
    FlatMapValues,
    MapValues,
    PassThrough,
    Peek,
    StoreGetter,
    StreamCount,
    StreamReduce,
    StreamTableJoin,
    TableMapValues,
    TableSource,
    TableToStream,
)
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, SourceNode

# Names in whose company a function may see its variables without loading them: it asks for them by name, looks at
# frames, or hands its text to a library that does (pandas' `query`, numexpr's `evaluate`, a debugger).
_ASK_FOR_NAMES = frozenset(
    {"locals", "vars", "dir", "eval", "exec", "super", "query", "evaluate", "sql", "_getframe", "_current_frames",
     "currentframe", "stack", "trace", "walk_stack", "f_locals", "f_back", "tb_frame", "gi_frame", "breakpoint",
     "set_trace", "post_mortem"}
)  # fmt: skip

Children = Mapping[str, Sequence[Node]]


@dataclass(frozen=True)
class Forms:
    """Names of the nodes whose incoming keys, or values, are bytes, each with the serde that would decode them."""

    raw_keys: Mapping[str, Serde[Any]]
    raw_values: Mapping[str, Serde[Any]]


def find_forms(nodes: Sequence[Node], children: Children, stores: Mapping[str, AnyStoreBuilder]) -> Forms:
    """Decide for ``nodes``, whose serdes and extractors are already filled in from the configuration."""

    def keys_agree(serde: Serde[Any], node: Node) -> bool:
        if isinstance(node, ProcessorNode):
            return all(stores[name].key_serde == serde for name in node.stores)
        return node.key_serde == serde

    def values_agree(serde: Serde[Any], node: Node) -> bool:
        return isinstance(node, ProcessorNode) or node.value_serde == serde

    return Forms(
        _raw(_parts(nodes, children, lambda node: False), key_passes, lambda source: source.key_serde, keys_agree),
        _raw(_parts(nodes, children, forgets_value), value_passes, lambda source: source.value_serde, values_agree),
    )


def _plain(node: SourceNode | SinkNode) -> bool:
    """Whether no extractor or partitioner looks at the record."""
    if isinstance(node, SourceNode):
        return isinstance(node.timestamp_extractor, FailOnInvalidTimestamp)
    return isinstance(node.topic, str) and node.partitioner is None


def key_passes(node: Node) -> bool:
    """Whether ``node`` neither shows the key to a user function nor changes it."""
    if not isinstance(node, ProcessorNode):
        return _plain(node)
    match node.operator:
        case DropNullKeys() | PassThrough() | StreamCount() | StreamReduce() | TableToStream() | TableSource():
            return True
        case Filter():
            return ignores_key(node.operator.predicate)
        case Peek():
            return ignores_key(node.operator.action)
        case Branch():
            return all(map(ignores_key, node.operator.predicates))
        case MapValues() | FlatMapValues() | TableMapValues():
            return not node.operator.with_key or ignores_key(node.operator.mapper)
        case StreamTableJoin():
            return not node.operator.with_key and isinstance(node.operator.table, StoreGetter)
    return False


def ignores_key(function: Callable[..., object]) -> bool:
    """Whether ``function``, called with a key first, cannot see it: its code never loads that parameter.

    Only said of a plain function whose first parameter no inner function captures, and in which nothing could ask
    for variables by name.
    """
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    if not code.co_argcount or code.co_varnames[0] in code.co_cellvars or _ASK_FOR_NAMES.intersection(code.co_names):
        return False
    return not any(
        instruction.opname.startswith(("LOAD_FAST", "STORE_FAST", "DELETE_FAST"))
        and code.co_varnames[0]
        in (instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,))
        for instruction in dis.get_instructions(code)
    )


def value_passes(node: Node) -> bool:
    """Whether ``node`` neither shows the value to a user function nor changes it, or forgets it."""
    if not isinstance(node, ProcessorNode):
        return _plain(node)
    return isinstance(node.operator, DropNullKeys | PassThrough | StreamCount)


def forgets_value(node: Node) -> bool:
    """Whether what ``node`` forwards has nothing of the value it received."""
    return isinstance(node, ProcessorNode) and isinstance(node.operator, StreamCount)


def _raw(
    parts: list[list[Node]],
    passes: Callable[[Node], bool],
    serde_of: Callable[[SourceNode], Serde[Any] | None],
    agrees: Callable[[Serde[Any], Node], bool],
) -> dict[str, Serde[Any]]:
    raw: dict[str, Serde[Any]] = {}
    for part in parts:
        sources = [node for node in part if isinstance(node, SourceNode)]
        serde = serde_of(sources[0]) if sources else None
        if serde and serde.lossless and all(passes(node) and agrees(serde, node) for node in part):
            raw.update((node.name, serde) for node in part)
    return raw


def _parts(nodes: Sequence[Node], children: Children, cut: Callable[[Node], bool]) -> list[list[Node]]:
    """Nodes joined by edges, except those behind a node where ``cut`` holds."""
    parent = {node.name: node.name for node in nodes}

    def find(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for node in nodes:
        if not cut(node):
            for child in children[node.name]:
                parent[find(child.name)] = find(node.name)
    parts: dict[str, list[Node]] = {}
    for node in nodes:
        parts.setdefault(find(node.name), []).append(node)
    return list(parts.values())
