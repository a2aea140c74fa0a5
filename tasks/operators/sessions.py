"""Aggregates of sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.windows import Window
from penstock.state.windowed.keys import end_and_start
from penstock.state.windowed.segments import pack_segment
from penstock.state.windowed.session_index import Session, near
from penstock.state.windowed.session_store import SessionStateStore
from penstock.tasks.closures import closure_of
from penstock.tasks.operators.final_results import close_when_idle, emit_closed
from penstock.tasks.operators.folds import functions_of
from penstock.tasks.operators.updates import WindowedUpdate, forward_windowed_updates
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.folds import Reduce
from penstock.topology.physical.session_operators import MergingAggregate, SessionFold, SessionWindowAggregate


@closure_of(SessionWindowAggregate)
def _sessions(spec: SessionWindowAggregate, wiring: Wiring) -> StreamEdge:
    """A record takes the place of the sessions that it belongs to, which are deleted, and makes one session of them."""
    store, context, name = wiring.store, wiring.context, wiring.name
    opened = store.opened
    assert isinstance(opened, SessionStateStore)
    buffer, index = opened.buffer, opened.index()
    gap = spec.windows.inactivity_gap_ms
    span = gap + spec.windows.grace_period_ms
    (initial, fold), merge = functions_of(spec.fold), _merger(spec.fold)
    update = None if spec.on_close else forward_windowed_updates(store, wiring, spec.send_old_values)
    replace = _replacing(opened, wiring, None if buffer.caching else update)
    emit = emit_closed(store, wiring, _closed) if spec.on_close else None
    emitted = wiring.close_time(store) if spec.on_close else None
    observed, failed, key_bytes = wiring.observed_time(), wiring.failed_at(store), wiring.key_to_bytes(store)
    known, load, first_end = index.of.get, index.load, index.first_end
    dirty_get, load_row = buffer.dirty.get, buffer.load_to_update
    close_when_idle(store, wiring, observed, emit, span, reach_ms=0)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            context.dropped_records += 1
            return
        if timestamp > observed.ms:
            observed.ms = timestamp
        row_key = None
        try:
            row_key = key if key_bytes is None else key_bytes(key)
            there = known(row_key)
            if there is None:
                there = load(row_key)
            found: Sequence[Session] = ()
            start = end = timestamp
            if there and there[-1][0] >= timestamp - gap:
                found = near(there, max(timestamp - gap, first_end()), timestamp + gap)
                for last, first, _ in found:
                    start, end = min(start, first), max(end, last)
            if end < observed.ms - span:
                context.dropped_records += 1
            else:
                aggregate = initial()
                olds = [(dirty_get(row) or load_row(row))[0] for _, _, row in found]
                for old in olds:
                    aggregate = merge(key, aggregate, old)
                new = fold(key, value, aggregate)
                replace(key, row_key, there, found, olds, start, end, new, timestamp)
        except Exception as error:
            if row_key is not None:
                index.forget(row_key)  # what was half done is read anew
            failed(error, name, key)
            return
        if emitted is not None and emitted.ms < observed.ms - span:
            assert emit is not None
            emit(observed.ms - span)

    return run


def _replacing(opened: SessionStateStore, wiring: Wiring, update: WindowedUpdate | None) -> Callable[..., None]:
    """Deletes the sessions found in favour of the new one, in rows and index; ``update`` hands it on at once."""
    rows, buffer, context, index = opened.rows, opened.buffer, wiring.context, opened.index()
    caching, retention_ms, interval_ms = buffer.caching, rows.segments.retention_ms, rows.segments.interval_ms
    order = rows.time_order
    at_once = None if update is None else _without_headers(update, wiring)

    def delete(key: bytes, session: Session, timestamp: int) -> None:
        end, start, row = session
        if order is not None:
            order.discard(key, end_and_start(end, start))
        buffer.put(row, None, timestamp, context.headers)

    def put(key: bytes, start: int, end: int, value: Any, timestamp: int) -> bytes:
        suffix = end_and_start(end, start)
        row = pack_segment(end // interval_ms) + key + suffix
        if order is not None or end < rows.stream_time - retention_ms:
            rows.put(key, suffix, end, value, timestamp, context.headers, counted=True)
        else:
            rows.observe(end)
            buffer.put(row, value, timestamp, context.headers)
        return row

    def replace(
        key: Any,
        row_key: bytes,
        there: list[Session],
        found: Sequence[Session],
        olds: list[Any],
        start: int,
        end: int,
        new: Any,
        timestamp: int,
    ) -> None:
        if start < end:  # else it is the very session that was found, if one was
            for session, old in zip(found, olds, strict=True):
                last, first, _ = session
                if not caching or last != end or first != start:
                    delete(row_key, session, timestamp)
                if at_once is not None:
                    at_once(key, Window(first, last), None, old, last)
        row = put(row_key, start, end, new, timestamp)
        index.replace(there, found, None if new is None else (end, start, row))
        if at_once is not None:
            at_once(key, Window(start, end), new, None, end)

    return replace


def _without_headers(update: WindowedUpdate, wiring: Wiring) -> WindowedUpdate:
    """As in Kafka Streams, where only the updates of a cache have the record's headers."""
    context = wiring.context

    def told(key: Any, window: Window, new: Any, old: Any, timestamp: int) -> None:
        headers, context.headers = context.headers, None
        try:
            update(key, window, new, old, timestamp)
        finally:
            context.headers = headers

    return told


def _merger(fold: SessionFold) -> Callable[[Any, Any, Any], Any]:
    """What makes one aggregate of two: of (key, aggregate, other)."""
    match fold:
        case MergingAggregate():
            return fold.merger
        case Reduce(reducer):
            return lambda key, aggregate, other: other if aggregate is None else reducer(aggregate, other)
        case _:
            return lambda key, aggregate, other: aggregate + other


def _closed(last: int, close_time: int) -> tuple[int, int] | None:
    """The end of a session belongs to it: it closes when the close time is past it."""
    first, latest = max(0, last), close_time - 1
    return (first, latest) if first <= latest else None
