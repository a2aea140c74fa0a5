"""Aggregates of sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.windows import Window
from penstock.state.windowed.keys import end_and_start
from penstock.state.windowed.recent_sessions import Session, session_row
from penstock.state.windowed.session_buffer import SessionBuffer
from penstock.state.windowed.session_index import PRUNED, SessionIndex
from penstock.state.windowed.session_store import SessionStateStore
from penstock.tasks.closures import closure_of
from penstock.tasks.operators.final_results import Closing, close_when_idle, emit_closed
from penstock.tasks.operators.folds import functions_of
from penstock.tasks.operators.updates import WindowedUpdate, forward_windowed_updates
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.operators.folds import Count, Reduce
from penstock.topology.physical.operators.sessions import MergingAggregate, SessionFold, SessionWindowAggregate


@closure_of(SessionWindowAggregate)
def _sessions(spec: SessionWindowAggregate, wiring: Wiring) -> StreamEdge:
    """A record and the sessions that it belongs to become one session; those sessions are deleted."""
    store, context, name = wiring.store, wiring.context, wiring.name
    opened = store.opened
    assert isinstance(opened, SessionStateStore)
    gap = spec.windows.inactivity_gap_ms
    span, index = gap + spec.windows.grace_period_ms, opened.index(gap)
    initial, fold = functions_of(spec.fold)
    update = None if spec.on_close else forward_windowed_updates(store, wiring, spec.send_old_values)
    replace = _replacing(opened, index, wiring, None if opened.buffer.caching else update)
    begin = _beginning(opened, index, wiring, spec.fold, replace)
    extend = _extending(opened, spec.fold, replace)
    if opened.buffer.caching and opened.rows.time_order is None:
        extend = _growing(opened, index, wiring, spec.fold, extend, replace)
    emit, before_closing = emit_closed(store, wiring, _CLOSING) if spec.on_close else (None, None)
    emitted = wiring.close_time(store) if spec.on_close else None
    observed, failed, key_bytes = wiring.observed_time(), wiring.failed_at(store), wiring.key_to_bytes(store)
    find, load, without_expired = index.lists.find, index.load, index.without_expired
    close_when_idle(store, wiring, observed, emit, span, reach_ms=0)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            context.dropped_records += 1
            return
        if timestamp > observed.ms:
            if before_closing is not None:
                before_closing(timestamp, observed.ms - span)
            observed.ms = timestamp
        row_key = None
        try:
            row_key = key if key_bytes is None else key_bytes(key)
            found, end = find(row_key, timestamp), timestamp
            if found is None:
                found = load(row_key, timestamp)
            if found and (found := without_expired(found)) and found[-1][0] > end:
                end = found[-1][0]
            if end < observed.ms - span:
                context.dropped_records += 1
            elif found:
                extend(key, value, row_key, found, timestamp)
            else:
                begin(key, row_key, fold(key, value, initial()), timestamp)
        except Exception as error:
            if row_key is not None:
                index.forget(row_key)  # what was half done is read again
            failed(error, name, key, value, timestamp)
            return
        if emitted is not None and emitted.ms < observed.ms - span:
            assert emit is not None
            emit(observed.ms - span)

    return run


def _beginning(
    opened: SessionStateStore, index: SessionIndex, wiring: Wiring, fold: SessionFold, replace: Callable[..., None]
) -> Callable[[Any, bytes, Any, int], None]:
    """Returns the function that puts the session of one record, which is near no other session."""
    rows, buffer, add, context = opened.rows, opened.buffer, index.lists.add, wiring.context
    interval_ms, quick = rows.segments.interval_ms, buffer.caching and rows.time_order is None
    # Without the sampling of sizes, as in ``aggregate.py``: sessions that grow are put, and sampled.
    past_put = isinstance(fold, Count) and buffer.takes_direct_writes
    dirty, put, next_update_number = buffer.dirty, buffer.put, buffer.next_update_number

    def begin(key: Any, row_key: bytes, new: Any, timestamp: int) -> None:
        if quick and new is not None and timestamp >= rows.stream_time:
            # As replace would do it, in order: most sessions begin so, and many have one record.
            rows.stream_time = rows.expiry_time = timestamp
            row = session_row(row_key, timestamp, timestamp, interval_ms)
            if past_put:
                dirty[row] = (new, timestamp, context.headers, next_update_number())
            else:
                put(row, new, timestamp, context.headers)
            if add(row_key, timestamp, timestamp) >= PRUNED:
                index.prune(row_key)
        else:
            replace(key, row_key, (), (), timestamp, timestamp, new, timestamp)

    return begin


def _growing(
    opened: SessionStateStore,
    index: SessionIndex,
    wiring: Wiring,
    fold: SessionFold,
    extend: Callable[..., None],
    replace: Callable[..., None],
) -> Callable[..., None]:
    """Returns a faster ``extend``: fewer calls for a record that comes in order and belongs to one session.

    For a store with a cache that keeps no order of times.
    """
    rows, buffer, lists, context = opened.rows, opened.buffer, index.lists, wiring.context
    (initial, add_to), merge, interval_ms = functions_of(fold), _merger(fold), rows.segments.interval_ms
    assert isinstance(buffer, SessionBuffer)
    dirty_get, load_row, delete, put = buffer.dirty.get, buffer.load_to_update, buffer.delete, buffer.put

    def grow(key: Any, value: Any, row_key: bytes, found: Sequence[Session], timestamp: int) -> None:
        last, start = found[0]
        if len(found) > 1 or timestamp <= last or timestamp < rows.stream_time:
            extend(key, value, row_key, found, timestamp)
            return
        row = session_row(row_key, last, start, interval_ms)
        old = (dirty_get(row) or load_row(row))[0]
        new = add_to(key, value, merge(key, initial(), old))
        if new is None:
            replace(key, row_key, found, ((row, old),), start, timestamp, None, timestamp)
            return
        if lists.replace(row_key, found, timestamp, start) >= PRUNED:
            index.prune(row_key)
        delete(row, old, timestamp, context.headers)
        rows.stream_time = rows.expiry_time = timestamp
        put(session_row(row_key, timestamp, start, interval_ms), new, timestamp, context.headers)

    return grow


def _extending(opened: SessionStateStore, fold: SessionFold, replace: Callable[..., None]) -> Callable[..., None]:
    """Returns the function that merges the sessions in or near which a record lies, and the record, into one."""
    (initial, add_to), merge, interval_ms = functions_of(fold), _merger(fold), opened.rows.segments.interval_ms
    dirty_get, load_row = opened.buffer.dirty.get, opened.buffer.load_to_update

    def extend(key: Any, value: Any, row_key: bytes, found: Sequence[Session], timestamp: int) -> None:
        start, end, aggregate = timestamp, timestamp, initial()
        olds = []
        for last, first in found:
            start, end = min(start, first), max(end, last)
            row = session_row(row_key, last, first, interval_ms)
            old = (dirty_get(row) or load_row(row))[0]
            olds.append((row, old))
            aggregate = merge(key, aggregate, old)
        replace(key, row_key, found, olds, start, end, add_to(key, value, aggregate), timestamp)

    return extend


def _replacing(
    opened: SessionStateStore, index: SessionIndex, wiring: Wiring, update: WindowedUpdate | None
) -> Callable[..., None]:
    """Returns the function that replaces the sessions found by a new one, in rows and index; ``update`` forwards it."""
    rows, buffer, context = opened.rows, opened.buffer, wiring.context
    assert isinstance(buffer, SessionBuffer)
    caching, retention_ms, interval_ms = buffer.caching, rows.segments.retention_ms, rows.segments.interval_ms
    order, observed = rows.time_order, wiring.observed_time()
    at_once = None if update is None else _without_headers(update, wiring)

    def put(key: bytes, start: int, end: int, value: Any, timestamp: int) -> None:
        # If a session ends later than all records so far, it is in the changelog already, from before a crash.
        rows.observe(end if end < observed.ms else observed.ms)
        if end <= rows.expiry_time and (order is not None or end < rows.expiry_time - retention_ms):
            rows.put(key, end_and_start(end, start), end, value, timestamp, context.headers, counted=True)
            return
        if order is not None:
            order.add(key, end_and_start(end, start))
        buffer.put(session_row(key, end, start, interval_ms), value, timestamp, context.headers)

    def replace(
        key: Any,
        row_key: bytes,
        found: Sequence[Session],
        olds: Sequence[tuple[bytes, Any]],
        start: int,
        end: int,
        new: Any,
        timestamp: int,
    ) -> None:
        # First of all: an operator that gets the updates below may put sessions of this key; its list is then read
        # again.
        index.replace(row_key, found, None if new is None else (end, start))
        if start < end:  # else it is the very session that was found, if one was
            for (last, first), (row, old) in zip(found, olds, strict=True):
                if not caching or last != end or first != start:
                    if order is not None:
                        order.discard(row_key, end_and_start(last, first))
                    buffer.delete(row, old, timestamp, context.headers)
                if at_once is not None:
                    at_once(key, Window(first, last), None, old, last)
        put(row_key, start, end, new, timestamp)
        if at_once is not None:
            at_once(key, Window(start, end), new, None, end)

    return replace


def _without_headers(update: WindowedUpdate, wiring: Wiring) -> WindowedUpdate:
    """Returns ``update`` without headers: as in Kafka Streams, only the updates of a cache have the record's."""
    context = wiring.context

    def without_headers(key: Any, window: Window, new: Any, old: Any, timestamp: int) -> None:
        headers, context.headers = context.headers, None
        try:
            update(key, window, new, old, timestamp)
        finally:
            context.headers = headers

    return without_headers


def _merger(fold: SessionFold) -> Callable[[Any, Any, Any], Any]:
    """Returns the function that merges two aggregates into one: of (key, aggregate, other)."""
    match fold:
        case MergingAggregate():
            return fold.merger
        case Reduce(reducer):
            return lambda key, aggregate, other: other if aggregate is None else reducer(aggregate, other)
        case _:
            return lambda key, aggregate, other: aggregate + other


_CLOSING = Closing(lambda last: max(0, last), lambda close_time: close_time - 1)
"""The end of a session belongs to it: it closes when the close time is past it."""
