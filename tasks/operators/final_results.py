"""Emission of windows once they close: one way for time windows, sliding windows and sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.state.windowed.expiring_store import ExpiringStoreBuilder
from penstock.tasks.context import Remembered
from penstock.tasks.wiring import Store, Wiring


class Closing(NamedTuple):
    """Two functions from close times to the times of rows: they give the span of the rows to emit.

    ``first``: from the close time of the last emission (−1 if there was none) to the first time of rows that were not
    emitted. ``latest``: from a close time to the last time of rows whose windows have closed.
    """

    first: Callable[[int], int]
    latest: Callable[[int], int]


class FinalResults(NamedTuple):
    """``emit``: called after each record with the close time, which is the observed stream time less the grace period.
    ``before``: called before a record that advances the time, with its timestamp and the close time until then."""

    emit: Callable[[int], None]
    before: Callable[[int, int], None]


def close_when_idle(
    store: Store,
    wiring: Wiring,
    observed: Remembered,
    emit: Callable[[int], None] | None,
    grace_ms: int,
    reach_ms: int,
) -> None:
    """Let the windows of ``store`` close while no records come, too, if that is configured: they then take no more
    records, and ``emit``, which :func:`emit_closed` made if they are emitted on close, is called.

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


def emit_closed(store: Store, wiring: Wiring, closing: Closing) -> FinalResults:
    """Returns the functions that emit the windows that have closed.

    Emitted with the headers of the current record, rows come by their time, or, if the user named a supplier of a store
    on disk, in the order on disk. They are looked for once in an interval of the wall clock. If a record advances the
    time so far that the store would lose some of them, they are looked for at once, possibly in each interval while the
    task catches up on history. (In Kafka Streams these are lost.)
    """
    rows, context, forward = store.windowed.rows, wiring.context, wiring.forward_change
    emitted, interval_ms = wiring.close_time(store), context.emit_interval_ms
    builder = store.builder
    assert isinstance(builder, ExpiringStoreBuilder)
    as_they_lie = builder.persistent and not builder.time_ordered
    # Kafka Streams finds expired rows in its cache; expired sessions, whose time is their end, it shows in any case.
    timestamped = rows.row_format.has_timestamp
    expired = rows.buffer.caching or not timestamped
    windowed, end_of = wiring.row_to_windowed_key(store), rows.schema.end
    store.buffer.flushes_every_deletion = True
    first_time, latest_time = closing
    next_ms, found_until = 0, -1

    def emit(close_time: int) -> None:
        nonlocal next_ms
        if context.wall_ms < next_ms or close_time <= emitted.ms:
            return
        next_ms = context.wall_ms + interval_ms
        first, latest = first_time(emitted.ms), latest_time(close_time)
        if first > latest:
            return  # and the emission does not count
        for row_key, (value, timestamp, _, _) in rows.by_time(first, latest, as_they_lie, expired):
            forward(windowed(row_key), value, None, timestamp if timestamped else end_of(row_key))
        emitted.ms = close_time

    def before(timestamp: int, close_time: int) -> None:
        nonlocal next_ms, found_until
        if timestamp <= found_until:
            return
        found_until = rows.found_until(first_time(emitted.ms), expired)
        if timestamp > found_until:
            next_ms = 0
            emit(close_time)
            next_ms = 0  # the commit may delete what this record closes

    return FinalResults(emit, before)
