"""Aggregates in windows of fixed size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.records import Headers
from penstock.common.windows import Window, time_window
from penstock.state.rows.row_formats import Entry
from penstock.state.windowed.expiring_rows import ExpiringRows
from penstock.state.write_buffer.write_buffer import ABSENT
from penstock.tasks.closures import closure_of
from penstock.tasks.operators.final_results import Closing, close_when_idle, emit_closed
from penstock.tasks.operators.folds import functions_of
from penstock.tasks.operators.updates import forward_windowed_updates
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.options.windows import TimeWindows, UnlimitedWindows
from penstock.topology.physical.operators.windows import TimeWindowAggregate

_MOST_PLACES = 1000
_NEVER = 1 << 63
"""A time later than all others."""
_Place = tuple[bytes, bytes, Window]
"""The bytes before and after the key in the key of a row, and the window."""


@closure_of(TimeWindowAggregate)
def _time_windows(spec: TimeWindowAggregate, wiring: Wiring) -> StreamEdge:
    """The windows of a record are updated and forwarded one by one, oldest first."""
    store, context, name, windows = wiring.store, wiring.context, wiring.name, spec.windows
    rows, (initial, fold), observed = store.windowed.rows, functions_of(spec.fold), wiring.observed_time()
    key_bytes, failed = wiring.key_to_bytes(store), wiring.failed_at(store)
    update = None if spec.on_close else forward_windowed_updates(store, wiring, spec.send_old_values)
    at_once = None if store.buffer.caching else update
    emit, before_closing = emit_closed(store, wiring, _closing(windows)) if spec.on_close else (None, None)
    dirty_get, load, load_new, put = _row_functions(rows, spec)
    (places, place_of), order = _places(rows, windows), rows.time_order
    size, grace, (origin, shift, advance) = windows.size_ms, windows.grace_period_ms, _starts(windows)
    place_get, newest_start = places.get, -1
    close_when_idle(store, wiring, observed, emit, grace, reach_ms=size - 1)

    def run(key: Any, value: Any, timestamp: int) -> None:
        nonlocal newest_start
        if key is None:
            context.dropped_records += 1
            return
        if timestamp > observed.ms:
            if before_closing is not None:
                before_closing(timestamp, observed.ms - grace)
            observed.ms = timestamp
        close_time = observed.ms - grace
        start = timestamp - shift
        start = origin + (start - start % advance if start > 0 else 0)
        while start <= timestamp:
            if start + size <= close_time:
                context.dropped_records += 1
                start += advance
                continue
            front, back, window = place_get(start) or place_of(start)
            try:
                raw = key if key_bytes is None else key_bytes(key)
                row = front + raw + back
                # A row that starts later than all rows on disk is not looked for there.
                old, old_timestamp, _, _ = dirty_get(row) or (load if start <= rows.committed_time else load_new)(row)
                if old is None:
                    before, newest = initial(), timestamp
                else:
                    before, newest = old, timestamp if timestamp > old_timestamp else old_timestamp
                new = fold(key, value, before)
                # A deletion has no time of its own: it is logged at the record's.
                put(row, new, timestamp if new is None else newest, context.headers)
            except Exception as error:
                failed(error, name, key, value, timestamp)
                return
            if start > newest_start:
                newest_start = start
                rows.observe(start)
            if old is None and order is not None and new is not None:
                order.add(raw, back)
            if at_once is not None:
                at_once(key, window, new, before, newest)
            start += advance
        if emit is not None:
            emit(close_time)

    return run


def _starts(windows: TimeWindows | UnlimitedWindows) -> tuple[int, int, int]:
    """Returns times in ms: the start of the first window; the least time from the start of a record's oldest window to
    the record; the time between the starts of windows."""
    if isinstance(windows, UnlimitedWindows):
        return windows.start_ms, 0, _NEVER
    return 0, windows.size_ms - windows.advance_ms, windows.advance_ms


def _places(
    rows: ExpiringRows, windows: TimeWindows | UnlimitedWindows
) -> tuple[dict[int, _Place], Callable[[int], _Place]]:
    """Returns the places of the windows that records were in lately, by start, and the function that adds one."""
    places: dict[int, _Place] = {}

    def place_of(start: int) -> _Place:
        if len(places) >= _MOST_PLACES:
            places.clear()
        suffix = rows.schema.first(start)
        place = places[start] = rows.front(start), suffix, time_window(start, windows.size_ms)
        return place

    return places, place_of


_Get = Callable[[bytes], Entry | None]
_Load = Callable[[bytes], Entry]
_Put = Callable[[bytes, Any, int, Headers | None], None]


def _row_functions(rows: ExpiringRows, spec: TimeWindowAggregate) -> tuple[_Get, _Load, _Load, _Put]:
    """Returns functions that get a row from the changes, load one, load one that is not on disk, and put one."""
    buffer, windows = rows.buffer, spec.windows
    is_alone = not spec.shares_store or buffer.caching  # Kafka Streams' cache finds what has expired
    if is_alone and rows.segments.retention_ms >= windows.size_ms + windows.grace_period_ms:
        # A window that still takes records has not expired: there is no need to check each time.
        return buffer.dirty.get, buffer.load_to_update, buffer.load_not_committed, buffer.put
    time, key_of, suffix_bytes = rows.schema.time, rows.key, rows.schema.suffix_bytes

    def get(row: bytes) -> Entry | None:
        return None

    def load(row: bytes) -> Entry:
        entry = buffer.get(row) if rows.is_visible(time(row)) else None
        return entry or ABSENT

    def put(row: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
        rows.put(key_of(row), row[-suffix_bytes:], time(row), value, timestamp, headers, counted=True)

    return get, load, load, put


def _closing(windows: TimeWindows | UnlimitedWindows) -> Closing:
    """Returns the closing. The end of a window does not belong to it: it closes when the close time reaches it."""
    size, (_, _, advance) = windows.size_ms, _starts(windows)

    def first(last: int) -> int:
        # The start that follows the last one that was emitted: while the close time moves within one window, no other
        # one closes.
        return 0 if last < 0 else (max(0, last - size) // advance + 1) * advance

    return Closing(first, lambda close_time: close_time - size)
