"""Updates of versioned tables: forwarded with their history, or without it to operators that want the latest only."""

from __future__ import annotations

from typing import Any

from penstock.state.versioned.latest_buffer import NOT_PUT, VALID_TO_UNDEFINED
from penstock.state.versioned.store import VersionedStateStore
from penstock.tasks.context import TaskContext
from penstock.tasks.wiring import TableEdge


def forward_versions(
    store: VersionedStateStore, forward: TableEdge, context: TaskContext, send_old_values: bool
) -> TableEdge:
    """Returns the edge that forwards the update put into ``store`` last, unless it was too late to be put.

    An operator that must know if an update is history or the latest reads ``context.is_latest`` while it passes.
    """
    buffer = store.versions.latest

    def now(key: Any, new: Any, old: Any, timestamp: int) -> None:
        valid_to = buffer.valid_to
        if valid_to == NOT_PUT:
            return
        before, context.is_latest = context.is_latest, valid_to == VALID_TO_UNDEFINED
        try:
            forward(key, new, old if send_old_values else None, timestamp)
        finally:
            context.is_latest = before

    return now


def latest_only(edge: TableEdge, context: TaskContext, *, counted: bool) -> TableEdge:
    """Returns ``edge`` without the updates that are part of a versioned table's history: for operators whose result
    depends on the latest alone. ``counted``: the others count as dropped records."""

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if context.is_latest:
            edge(key, new, old, timestamp)
        elif counted:
            context.dropped_records += 1

    return run
