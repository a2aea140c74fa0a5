"""Joins of two tables by their primary keys: the joined table, and the node that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from penstock.state.builders import AnyStoreBuilder
from penstock.topology.logical.graph import LogicalNode
from penstock.topology.logical.related_tables import is_derived_from_same_record, keeper_of
from penstock.topology.logical.tables import TableDefinition
from penstock.topology.physical.operators.operator import ValueGetter
from penstock.topology.physical.operators.table_join import TableJoinGetter, TableJoinMerge, TableTableJoin
from penstock.topology.physical.topology import ProcessorNode
from penstock.topology.physical.writer import TopologyWriter


@dataclass(frozen=True)
class JoinKind:
    """Inner, left or outer: the sides whose values have a result without a match. ``call`` is the user's."""

    call: str
    keeps_left: bool
    keeps_right: bool


class JoinedTable(TableDefinition):
    """The join of ``left`` and ``right``, which both are kept somewhere from now on; itself only if given a store."""

    def __init__(
        self,
        left: TableDefinition,
        right: TableDefinition,
        joiner: Callable[[Any, Any], Any],
        kind: JoinKind,
        store: AnyStoreBuilder | None,
    ) -> None:
        super().__init__(TableJoinMerge(), store)
        self._parents = left, right
        # Without its old value, the deletion of a row without a match looks like that of a row that never was.
        if kind.keeps_left:
            left.enable_sending_old_values(force=True)
        if kind.keeps_right:
            right.enable_sending_old_values(force=True)
        self._left, self._right = left.getter(), right.getter()
        self._joiner = joiner
        self._kind = kind

    @override
    def enable_sending_old_values(self, force: bool) -> bool:
        # A store of its own spares the sides nothing: an uncached one forwards the old values that they know.
        self.sends_old_values = self._old_values_without_store(force)
        return self.sends_old_values

    @override
    def _getter_without_store(self) -> ValueGetter:
        kind = self._kind
        return TableJoinGetter(self._left, self._right, self._joiner, kind.call, kind.keeps_left, kind.keeps_right)

    @override
    def _old_values_without_store(self, force: bool) -> bool:
        # Both are kept for the join's sake: asking is enough.
        for parent in self._parents:
            parent.enable_sending_old_values(force=True)
        return True

    @property
    def stores_of_sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The stores that are looked into for a value of the left table, and of the right one."""
        return self._left.stores, self._right.stores

    def this_side(self) -> TableTableJoin:
        """The operator that joins the updates of the left table."""
        left, _ = self._parents
        return self._side(left, self._right, self._kind.keeps_left, self._kind.keeps_right, is_reversed=False)

    def other_side(self) -> TableTableJoin:
        """The operator that joins the updates of the right table."""
        _, right = self._parents
        return self._side(right, self._left, self._kind.keeps_right, self._kind.keeps_left, is_reversed=True)

    def _side(
        self, own: TableDefinition, other: ValueGetter, keeps_own: bool, keeps_other: bool, *, is_reversed: bool
    ) -> TableTableJoin:
        return TableTableJoin(
            other,
            self._joiner,
            self._kind.call,
            keeps_own,
            keeps_other,
            is_reversed,
            self.sends_old_values,
            (self._right if is_reversed else self._left).stores,
            of_versions=own.history_retention_ms is not None,
        )


class TableJoinNode(LogicalNode):
    """``join`` of two tables: a processor for the updates of each, and one that brings their results together.

    ``sides``: the name of each side's processor, and of the node of the table that feeds it.
    """

    def __init__(self, name: str, sides: tuple[tuple[str, str], tuple[str, str]], table: JoinedTable) -> None:
        super().__init__(name)
        self.sides = sides
        self.table = table

    @override
    def kept_stores(self) -> tuple[AnyStoreBuilder, ...]:
        return self.table.stores()

    @override
    def write(self, writer: TopologyWriter) -> None:
        (this, left), (other, right) = self.sides
        stores = dict(zip((left, right), self.table.stores_of_sides, strict=True))
        related = is_derived_from_same_record({keeper_of(node, stores[node.name]) for node in self.parents})
        for name, parent, side in ((this, left, self.table.this_side()), (other, right, self.table.other_side())):
            writer.add_processor(ProcessorNode(name, (parent,), replace(side, of_related_tables=related)))
        for store in self.table.stores():
            writer.add_store(store)
        writer.add_processor(ProcessorNode(self.name, (this, other), self.table.operator()))
