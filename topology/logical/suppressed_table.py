"""The table that ``suppress`` returns, and the grace period of its windows."""

from __future__ import annotations

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.logical.graph import LogicalNode, Operation
from penstock.topology.logical.tables import DerivedTable, TableDefinition
from penstock.topology.physical.operators.suppress import Suppress, SuppressGetter


class SuppressedTable(DerivedTable):
    """A table whose updates come late. Its store is the buffer, not its content."""

    def __init__(self, operator: Suppress, buffer: AnyStoreBuilder, parent: TableDefinition) -> None:
        super().__init__(operator, buffer, lambda getter: SuppressGetter(getter, buffer.name), parent)
        # The value before a key's first update that waits is only known from that update.
        parent.enable_sending_old_values(force=True)

    @property
    @override
    def materialized(self) -> bool:
        return False


def window_grace_of(node: LogicalNode) -> int:
    """Returns the stream time (ms) for which a window of the table that ``node`` feeds may change after its end: that
    of the aggregates that are found upward, the longest of several.

    Raises TopologyError if one of the ways upward finds no windows.
    """
    return max(_graces(node, ()))


def _graces(node: LogicalNode, below: tuple[str, ...]) -> list[int]:
    grace = node.operator().window_grace_ms if isinstance(node, Operation) else None
    if grace is not None:
        return [grace]
    way = (node.name, *below)
    if not node.parents:
        raise TopologyError(
            "suppress: only time, sliding and session windows close, and this table has none: "
            f"{' -> '.join(way[1:])}. Use Suppressed.until_time_limit, or aggregate a stream by windowed_by"
        )
    return [grace for parent in node.parents for grace in _graces(parent, way)]
