"""Aggregates of sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.windows import Window
from penstock.state.windowed.keys import end_and_start
from penstock.state.windowed.segments import pack_segment
from penstock.state.windowed.session_index import Session, SessionIndex, near
from penstock.state.windowed.session_store import SessionStateStore
from penstock.tasks.closures import closure_of
from penstock.tasks.operators.final_results import Closing, close_when_idle, emit_closed
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
    gap = spec.windows.inactivity_gap_ms
    span, index = gap + spec.windows.grace_period_ms, opened.index(gap)
    initial, fold = functions_of(spec.fold)
    update = None if spec.on_close else forward_windowed_updates(store, wiring, spec.send_old_values)
    replace = _replacing(opened, index, wiring, None if opened.buffer.caching else update)
    begin, extend = _beginning(opened, index, wiring, replace), _extending(opened, spec.fold, replace)
    emit, before_closing = emit_closed(store, wiring, _CLOSING) if spec.on_close else (None, None)
    emitted = wiring.close_time(store) if spec.on_close else None
    observed, failed, key_bytes = wiring.observed_time(), wiring.failed_at(store), wiring.key_to_bytes(store)
    known, load, first_end = index.of.get, index.load, index.first_end
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
            earliest = timestamp - gap if timestamp > gap else 0
            there = known(row_key)
            if there is None or there[0][0] >= earliest:
                there = load(row_key, earliest)
            found: Sequence[Session] = ()
            end = timestamp
            if there[-1][0] >= earliest:
                found = near(there, max(earliest, first_end()), timestamp + gap)
                if found and found[-1][0] > end:
                    end = found[-1][0]
            if end < observed.ms - span:
                context.dropped_records += 1
            elif found:
                extend(key, value, row_key, there, found, timestamp)
            else:
                begin(key, row_key, there, fold(key, value, initial()), timestamp)
        except Exception as error:
            if row_key is not None:
                index.forget(row_key)  # what was half done is read anew
            failed(error, name, key)
            return
        if emitted is not None and emitted.ms < observed.ms - span:
            assert emit is not None
            emit(observed.ms - span)

    return run


def _beginning(
    opened: SessionStateStore, index: SessionIndex, wiring: Wiring, replace: Callable[..., None]
) -> Callable[[Any, bytes, list[Session], Any, int], None]:
    """Puts the session of one record, which is no other one's neighbour."""
    rows, put, add, context = opened.rows, opened.buffer.put, index.add, wiring.context
    row_of, quick = _row_keys(opened), opened.buffer.caching and rows.time_order is None

    def begin(key: Any, row_key: bytes, there: list[Session], new: Any, timestamp: int) -> None:
        if quick and new is not None and timestamp >= rows.stream_time:
            # As replace would do it, in order: most sessions begin so, and many have one record.
            rows.stream_time = rows.expiry_time = timestamp
            put(row_of(row_key, timestamp, timestamp), new, timestamp, context.headers)
            add(there, (timestamp, timestamp))
        else:
            replace(key, row_key, there, (), (), timestamp, timestamp, new, timestamp)

    return begin


def _extending(opened: SessionStateStore, fold: SessionFold, replace: Callable[..., None]) -> Callable[..., None]:
    """Merges the sessions that a record lies in or near to, and the record, into one."""
    (initial, add_to), merge, row_of = functions_of(fold), _merger(fold), _row_keys(opened)
    dirty_get, load_row = opened.buffer.dirty.get, opened.buffer.load_to_update

    def extend(
        key: Any, value: Any, row_key: bytes, there: list[Session], found: Sequence[Session], timestamp: int
    ) -> None:
        start, end, aggregate = timestamp, timestamp, initial()
        olds = []
        for last, first in found:
            start, end = min(start, first), max(end, last)
            row = row_of(row_key, last, first)
            old = (dirty_get(row) or load_row(row))[0]
            olds.append((row, old))
            aggregate = merge(key, aggregate, old)
        replace(key, row_key, there, found, olds, start, end, add_to(key, value, aggregate), timestamp)

    return extend


def _row_keys(opened: SessionStateStore) -> Callable[[bytes, int, int], bytes]:
    """Where the session of a key stands that has this end and start."""
    interval_ms = opened.rows.segments.interval_ms

    def row_of(key: bytes, end: int, start: int) -> bytes:
        return pack_segment(end // interval_ms) + key + end_and_start(end, start)

    return row_of


def _replacing(
    opened: SessionStateStore, index: SessionIndex, wiring: Wiring, update: WindowedUpdate | None
) -> Callable[..., None]:
    """Deletes the sessions found in favour of the new one, in rows and index; ``update`` hands it on at once."""
    rows, buffer, context = opened.rows, opened.buffer, wiring.context
    caching, retention_ms, row_of = buffer.caching, rows.segments.retention_ms, _row_keys(opened)
    order, observed = rows.time_order, wiring.observed_time()
    at_once = None if update is None else _without_headers(update, wiring)

    def put(key: bytes, start: int, end: int, value: Any, timestamp: int) -> None:
        # A session that ends later than any record came is one that the changelog knows already, from before a crash.
        rows.observe(end if end < observed.ms else observed.ms)
        if end <= rows.expiry_time and (order is not None or end < rows.expiry_time - retention_ms):
            rows.put(key, end_and_start(end, start), end, value, timestamp, context.headers, counted=True)
            return
        if order is not None:
            order.add(key, end_and_start(end, start))
        buffer.put(row_of(key, end, start), value, timestamp, context.headers)

    def replace(
        key: Any,
        row_key: bytes,
        there: list[Session],
        found: Sequence[Session],
        olds: Sequence[tuple[bytes, Any]],
        start: int,
        end: int,
        new: Any,
        timestamp: int,
    ) -> None:
        if start < end:  # else it is the very session that was found, if one was
            for (last, first), (row, old) in zip(found, olds, strict=True):
                if not caching or last != end or first != start:
                    if order is not None:
                        order.discard(row_key, end_and_start(last, first))
                    buffer.put(row, None, timestamp, context.headers)
                if at_once is not None:
                    at_once(key, Window(first, last), None, old, last)
        put(row_key, start, end, new, timestamp)
        index.replace(there, found, None if new is None else (end, start))
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


_CLOSING = Closing(lambda last: max(0, last), lambda close_time: close_time - 1)
"""The end of a session belongs to it: it closes when the close time is past it."""
