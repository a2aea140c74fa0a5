"""Joins of two streams in the logical graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.logical.graph import LogicalGraph, LogicalNode, Operation
from penstock.topology.options.join_windows import JoinWindows
from penstock.topology.physical.operators.stateless import PassThrough
from penstock.topology.physical.operators.stream_join import StreamSelfJoin, StreamStreamJoin
from penstock.topology.physical.topology import ProcessorNode
from penstock.topology.physical.writer import TopologyWriter


@dataclass(frozen=True)
class JoinSide:
    """One side of a join: the names of its two nodes and of the store that keeps its records. ``outer``: records
    without a match are joined, too."""

    windowed: str
    join: str
    store: str
    outer: bool


class StreamStreamJoinNode(LogicalNode):
    """The joins of both sides and the node where their results come together, which gives it its name.

    Its parents are the joined streams; the nodes that keep their records are its siblings.
    """

    def __init__(
        self,
        name: str,
        call: str,
        sides: tuple[JoinSide, JoinSide],
        joiner: Callable[..., Any],
        with_key: bool,
        windows: JoinWindows,
        outer_store: AnyStoreBuilder | None,
    ) -> None:
        super().__init__(name)
        self.call = call
        self.left, self.right = sides
        self.joiner = joiner
        self.with_key = with_key
        self.windows = windows
        self.outer_store = outer_store
        self.relaxes_null_keys = self.left.outer or self.right.outer
        self.is_self_join = False

    @override
    def write(self, writer: TopologyWriter) -> None:
        left, right, outer = self.left, self.right, self.outer_store
        what = self.joiner, self.with_key, self.windows
        if self.is_self_join:
            joined = StreamSelfJoin(self.call, left.store, *what)
            writer.add_processor(ProcessorNode(self.name, (left.windowed,), joined))
            return
        if outer is not None:
            writer.add_store(outer)
        outer_store = None if outer is None else outer.name
        joins = (
            (left, StreamStreamJoin(self.call, right.store, *what, True, left.outer, outer_store)),
            (right, StreamStreamJoin(self.call, left.store, *what, False, right.outer, outer_store)),
        )
        for side, join in joins:
            writer.add_processor(ProcessorNode(side.join, (side.windowed,), join))
        writer.add_processor(ProcessorNode(self.name, (left.join, right.join), PassThrough()))


def keep_one_store_for_self_joins(graph: LogicalGraph) -> None:
    """``single.store.self.join``: if both sides of a join have become one stream, let one store have all records.

    As in Kafka Streams, left and outer joins become inner ones by that, since a record always matches itself.
    """
    for node in list(graph.nodes()):
        if isinstance(node, StreamStreamJoinNode) and len(node.parents) == 1:
            (parent,) = node.parents
            parent.remove_child(_windowed(parent, node.right.windowed))
            node.is_self_join = True


def _windowed(parent: LogicalNode, name: str) -> LogicalNode:
    for child in parent.children:
        if isinstance(child, Operation) and child.name == name:
            return child
    raise TopologyError(
        f"single.store.self.join: the join's node {name!r} is not fed by {parent.name!r}, as its join is; build "
        "without that optimisation"
    )
