"""Windows that are emitted once they close: one way for time windows, sliding windows and sessions."""

from __future__ import annotations

from collections.abc import Callable

from penstock.state.windowed.expiring_store import ExpiringStoreBuilder
from penstock.tasks.context import Remembered
from penstock.tasks.wiring import Store, Wiring

Closed = Callable[[int, int], tuple[int, int] | None]
"""From the close time of the last emission (−1 if there was none) and that of now to the times, first and last, of the
rows whose windows have closed between them; None when there can be none, and then the emission does not count."""


def close_when_idle(
    store: Store,
    wiring: Wiring,
    observed: Remembered,
    emit: Callable[[int], None] | None,
    grace_ms: int,
    reach_ms: int,
) -> None:
    """The windows of ``store`` close while no records come, too, where the configuration says so: they take none any
    more, and ``emit``, what :func:`emit_closed` made if they are emitted then, is called.

    ``reach_ms``: from the time of a row to the last ms of its window.
    """
    context, rows, emitted = wiring.context, store.windowed.rows, None if emit is None else wiring.close_time(store)

    def advance(time: int) -> None:
        observed.ms = context.timestamp = time
        if emit is not None:
            emit(time - grace_ms)

    def holds() -> bool:
        return emitted is not None and rows.stream_time >= 0 and rows.stream_time + reach_ms >= emitted.ms

    wiring.advances_when_idle(observed, advance, holds=holds)


def emit_closed(store: Store, wiring: Wiring, closed: Closed) -> Callable[[int], None]:
    """The result emits what has closed by ``close_time``, the observed stream time less the grace period.

    It is called after each record, with the record's headers. Rows come by their time, or, where the user named a
    supplier of a store on disk, as they lie there.
    """
    rows, context, forward = store.windowed.rows, wiring.context, wiring.forward_change
    emitted, interval_ms = wiring.close_time(store), context.emit_interval_ms
    builder = store.builder
    assert isinstance(builder, ExpiringStoreBuilder)
    as_they_lie = builder.persistent and not builder.time_ordered
    # Kafka Streams finds what has expired in its cache; of sessions, whose time is their end, it shows it anyhow.
    timestamped = rows.row_format.has_timestamp
    expired = rows.buffer.caching or not timestamped
    windowed = rows.windowed_keys(store.key_serde.deserialize)
    store.buffer.flushes_every_deletion = True
    next_ms = 0

    def emit(close_time: int) -> None:
        nonlocal next_ms
        if context.wall_ms < next_ms or close_time <= emitted.ms:
            return
        next_ms = context.wall_ms + interval_ms
        times = closed(emitted.ms, close_time)
        if times is None:
            return
        for row_key, (value, timestamp, _, _) in rows.by_time(*times, as_they_lie, expired):
            key = windowed(row_key)
            forward(key, value, None, timestamp if timestamped else key.window.end)
        emitted.ms = close_time

    return emit
