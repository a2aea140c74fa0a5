"""How the updates of a table reach its children: at once, or from the flush of the cache."""

from __future__ import annotations

from typing import Any

from penstock.common.records import Headers
from penstock.tasks.wiring import Store, TableEdge, Wiring


def forward_updates(store: Store, wiring: Wiring, send_old_values: bool) -> TableEdge:
    """Connect ``store`` with the children of the node that writes it; the result hands one update on now.

    A cached store does that itself while it is flushed, with the timestamp and headers of the last update of each key.
    Mirrors ``TimestampedTupleForwarder`` and ``TimestampedCacheFlushListener``.
    """
    forward, context = wiring.forward_change, wiring.context

    def now(key: Any, new: Any, old: Any, timestamp: int) -> None:
        forward(key, new, old if send_old_values else None, timestamp)

    if store.buffer.caching and wiring.children:
        to_key = wiring.bytes_to_key(store)

        def flushed(row: bytes, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
            context.headers = headers
            forward(to_key(row), new, old, timestamp)

        store.listen(wiring.name, flushed, send_old_values)
    return now
