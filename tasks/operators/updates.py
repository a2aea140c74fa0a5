"""Keeps the updates of a table, and forwards them to its children: at once, or when the cache is flushed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.records import Headers
from penstock.common.windows import Window
from penstock.state.versioned.store import VersionedStateStore
from penstock.tasks.operators.versions import forward_versions
from penstock.tasks.wiring import Store, TableEdge, Wiring
from penstock.topology.processor_api.processor_wrapper import Change

WindowedUpdate = Callable[[Any, Window, Any, Any, int], None]
"""(key as the node receives it, window, new value, old value or None, timestamp)"""


def forward_updates(store: Store, wiring: Wiring, send_old_values: bool) -> TableEdge:
    """Connect ``store`` with the children of the node that writes it; the result forwards one update now.

    A cached store does that itself while it is flushed, with the timestamp and headers of the last update of each key.
    Of a versioned store, which is never cached, an update must be the one that was put last; it is not forwarded if it
    was too late to be put. Mirrors ``TimestampedTupleForwarder`` and ``TimestampedCacheFlushListener``.
    """
    forward, context = wiring.forward_change, wiring.context
    if isinstance(store.opened, VersionedStateStore):
        return forward_versions(store.opened, forward, context, send_old_values)

    def now(key: Any, new: Any, old: Any, timestamp: int) -> None:
        forward(key, new, old if send_old_values else None, timestamp)

    if store.buffer.caching and wiring.children:
        to_key = wiring.bytes_to_key(store)

        def flushed(row: bytes, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
            context.headers = headers
            forward(to_key(row), new, old, timestamp)

        store.listen(wiring.name, flushed, send_old_values, children=wiring.children)
    return now


def forward_windowed_updates(store: Store, wiring: Wiring, send_old_values: bool) -> WindowedUpdate:
    """Like :func:`forward_updates`, for a window or session store, whose children get windowed keys."""
    forward, context, windowed = wiring.forward_change, wiring.context, wiring.to_windowed_key(store)

    def now(key: Any, window: Window, new: Any, old: Any, timestamp: int) -> None:
        forward(windowed(key, window), new, old if send_old_values else None, timestamp)

    if store.buffer.caching and wiring.children:
        to_key, end_of = wiring.row_to_windowed_key(store), store.windowed.rows.schema.end

        def flushed(row: bytes, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
            context.headers = headers
            forward(to_key(row), new, old, timestamp)

        def flushed_at_its_end(row: bytes, new: Any, old: Any, _: int, headers: Headers | None) -> None:
            context.headers = headers
            forward(to_key(row), new, old, end_of(row))

        # The time of a session is its end.
        on_flush = flushed if store.buffer.row_format.has_timestamp else flushed_at_its_end
        store.listen(wiring.name, on_flush, send_old_values, children=wiring.children)
    return now


def materialize(
    transform: Callable[[Any, Any], Any], send_old_values: bool, wiring: Wiring, store: Store, *, skip_nothing: bool
) -> TableEdge:
    """Keep ``transform(key, new value)`` of each update in ``store``, the node's own, and forward what that changes.

    Old values are the store's own, even if the updates have theirs. ``skip_nothing``: with old values at hand, a
    change from nothing to nothing is no change.
    """
    context, buffer = wiring.context, store.buffer
    key_bytes = wiring.key_to_bytes(store)
    update = forward_updates(store, wiring, send_old_values)
    get, put, at_once, refused = buffer.get, buffer.put, not buffer.caching, wiring.failed_at(store)
    failed, name, with_old = wiring.failed, wiring.name, at_once and send_old_values

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            new = transform(key, new)
        except Exception as error:
            failed(error, name, key, Change(new, old), timestamp)
            return
        deletes = skip_nothing and new is None
        try:
            row = key if key_bytes is None else key_bytes(key)
            entry = get(row) if with_old or deletes else None
            if deletes and entry is None:
                return
            put(row, new, timestamp, context.headers)
        except Exception as error:  # a serde that does not fit
            refused(error, name, key, Change(new, old), timestamp)
            return
        if at_once:
            update(key, new, None if entry is None else entry[0], timestamp)

    return run
