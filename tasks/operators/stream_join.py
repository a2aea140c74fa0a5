"""Joins of two streams.

Each side's records go first through its join, which looks for the other side's, and only then into its store: of two
records the later one finds the earlier. Matches are emitted in the order of time, those of one time in their order of
arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.state.key_value.outer_join_store import OuterJoinStateStore
from penstock.state.windowed.join_window_store import JoinWindowStateStore
from penstock.state.windowed.recent_rows import NOTHING
from penstock.tasks.closures import closure_of
from penstock.tasks.context import Remembered
from penstock.tasks.wiring import Store, StreamEdge, Wiring
from penstock.topology.physical.operators.stream_join import JoinWindow, StreamSelfJoin, StreamStreamJoin

Joiner = Callable[[Any, Any, Any], Any]


def _rows(store: Store) -> JoinWindowStateStore:
    assert isinstance(store.opened, JoinWindowStateStore)
    return store.opened


@closure_of(JoinWindow)
def _join_window(spec: JoinWindow, wiring: Wiring) -> StreamEdge:
    store, forward, name = wiring.store, wiring.forward, wiring.name
    put, key_bytes, failed = _rows(store).put, wiring.key_to_bytes(store), wiring.failed_at(store)

    def run(key: Any, value: Any, timestamp: int) -> None:
        forward(key, value, timestamp)
        if key is None:
            return
        try:
            put(key if key_bytes is None else key_bytes(key), value, timestamp, timestamp)
        except Exception as error:  # a serde that does not fit
            failed(error, name, key, value, timestamp)

    return run


@closure_of(StreamStreamJoin)
def _stream_stream_join(spec: StreamStreamJoin, wiring: Wiring) -> StreamEdge:
    if spec.outer_store is not None:
        return _outer_join(spec, wiring)
    before_ms, after_ms = _reach(spec)
    store, forward, context, name = wiring.stores[spec.store], wiring.forward, wiring.context, wiring.name
    find, key_bytes, failed = _rows(store).find, wiring.key_to_bytes(store), wiring.failed_at(store)
    joined = _joined(spec)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is None or value is None:
            context.dropped_records += 1
            return
        earliest, latest = timestamp - before_ms, timestamp + after_ms
        try:
            found = find(
                key if key_bytes is None else key_bytes(key),
                earliest if earliest > 0 else 0,
                latest if latest > 0 else 0,
            )
        except Exception as error:  # a serde that does not fit
            failed(error, name, key, value, timestamp)
            return
        for time, other, _ in found:
            try:
                result = joined(key, value, other)
            except Exception as error:
                failed(error, name, key, value, timestamp)
                return
            forward(key, result, time if time > timestamp else timestamp)

    return run


def _outer_join(spec: StreamStreamJoin, wiring: Wiring) -> StreamEdge:
    """A side of a left or outer join: also finds the records, of either side, that have no match."""
    assert spec.outer_store is not None
    before_ms, after_ms = _reach(spec)
    store, forward, context, name = wiring.stores[spec.store], wiring.forward, wiring.context, wiring.name
    rows, key_bytes, failed = _rows(store), wiring.key_to_bytes(store), wiring.failed_at(store)
    joined, left, outer = _joined(spec), spec.left, spec.outer
    waiting = wiring.stores[spec.outer_store].opened
    assert isinstance(waiting, OuterJoinStateStore)
    find, matched, add = rows.find, waiting.matched, waiting.add
    remembered = wiring.shared_observed_time(wiring.stores[spec.outer_store])
    # The store's changelog may be ahead of the commit; a commit of an earlier release has no time.
    waiting.observed.append(lambda: remembered.ms if remembered.ms >= 0 else rows.stream_time)
    grace_ms = spec.windows.grace_ms
    give_closed = _closed(spec, waiting, wiring)
    _close_when_idle(waiting, remembered, give_closed, wiring)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if not waiting.has_begun:
            waiting.begin()
        if timestamp > waiting.stream_time:
            waiting.stream_time = remembered.ms = timestamp
        if value is None or (key is None and not outer):
            context.dropped_records += 1
            return
        stream_time, latest = waiting.stream_time, max(timestamp + after_ms, 0)
        row, found = b"", NOTHING
        if key is not None:
            if timestamp == stream_time and waiting.smallest_time + after_ms + grace_ms < stream_time:
                give_closed(timestamp)
            try:
                row = key if key_bytes is None else key_bytes(key)
                found = find(row, max(timestamp - before_ms, 0), latest)
            except Exception as error:  # a serde that does not fit
                failed(error, name, key, value, timestamp)
                return
        for time, other, _ in found:
            try:
                matched(row, not left, time, timestamp)
                result = joined(key, value, other)
            except Exception as error:
                failed(error, name, key, value, timestamp)
                return
            forward(key, result, max(time, timestamp))
        if found or not outer:
            return
        try:
            if key is not None and latest >= stream_time:
                add(row, left, value, timestamp)
                return
            result = joined(key, value, None)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(key, result, timestamp)

    return run


def _close_when_idle(
    waiting: OuterJoinStateStore, remembered: Remembered, give_closed: Callable[[int], None], wiring: Wiring
) -> None:
    """Let records whose windows have closed be emitted while no records come, too, if that is configured."""
    context = wiring.context

    def now() -> int:
        if not waiting.has_begun:
            waiting.begin()
        return waiting.stream_time

    def advance(time: int) -> None:
        waiting.stream_time = remembered.ms = context.timestamp = time
        give_closed(time)

    wiring.advances_when_idle(remembered, advance, now, lambda: waiting.waits)


def _closed(spec: StreamStreamJoin, waiting: OuterJoinStateStore, wiring: Wiring) -> Callable[[int], None]:
    """Returns the function that emits, at their own times, the records of both sides whose windows closed unmatched."""
    forward, failed, name = wiring.forward, wiring.failed, wiring.name
    assert spec.outer_store is not None
    to_key, joiner, with_key = wiring.bytes_to_key(wiring.stores[spec.outer_store]), spec.joiner, spec.with_key
    left_ms = spec.windows.after_ms + spec.windows.grace_ms
    right_ms = spec.windows.before_ms + spec.windows.grace_ms

    def give(timestamp: int) -> None:
        stream_time = waiting.stream_time
        for row, left, time, value in waiting.take_closed(stream_time - left_ms, stream_time - right_ms, timestamp):
            key = to_key(row)
            values = (value, None) if left else (None, value)
            try:
                result = joiner(key, *values) if with_key else joiner(*values)
            except Exception as error:
                failed(error, name, key, value, timestamp)
                continue
            forward(key, result, time)

    return give


@closure_of(StreamSelfJoin)
def _stream_self_join(spec: StreamSelfJoin, wiring: Wiring) -> StreamEdge:
    """A record is joined as both sides: first as the left one, then as the right one, among whose matches the record
    itself has its place by time."""
    store, forward, context, name = wiring.store, wiring.forward, wiring.context, wiring.name
    window_store, key_bytes, failed = _rows(store), wiring.key_to_bytes(store), wiring.failed_at(store)
    find, rows = window_store.find, window_store.rows
    join = _with_key(spec)
    before_ms, after_ms, retention_ms = spec.windows.before_ms, spec.windows.after_ms, spec.windows.retention_ms

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is None or value is None:
            context.dropped_records += 1
            return
        # All earlier records have advanced the store's time, which it keeps over a restart, too. Kafka Streams begins
        # again then, and takes records that are too late.
        expiry_time = rows.expiry_time
        pending = timestamp > (expiry_time if expiry_time > timestamp else timestamp) - retention_ms + 1
        try:
            row = key if key_bytes is None else key_bytes(key)
            itself = join(key, value, value)
            found = find(row, max(timestamp - before_ms, 0), max(timestamp + after_ms, 0))
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        for time, other, _ in found:
            try:
                result = join(key, value, other)
            except Exception as error:
                failed(error, name, key, value, timestamp)
                return
            forward(key, result, max(time, timestamp))
        for time, other, _ in find(row, max(timestamp - after_ms, 0), max(timestamp + before_ms, 0)):
            if pending and time > timestamp:
                pending = False
                forward(key, itself, timestamp)
            try:
                result = join(key, other, value)
            except Exception as error:
                failed(error, name, key, value, timestamp)
                return
            forward(key, result, max(time, timestamp))
        if pending:
            forward(key, itself, timestamp)

    return run


def _reach(spec: StreamStreamJoin) -> tuple[int, int]:
    """Returns how far (ms) this side looks back and ahead: the windows are the left side's."""
    windows = spec.windows
    return (windows.before_ms, windows.after_ms) if spec.left else (windows.after_ms, windows.before_ms)


def _joined(spec: StreamStreamJoin) -> Joiner:
    """Returns the joiner as a function of (key, this side's value, the other side's)."""
    joiner: Joiner = spec.joiner
    if spec.left:
        return _with_key(spec)
    if spec.with_key:
        return lambda key, value, other: joiner(key, other, value)
    plain: Callable[[Any, Any], Any] = spec.joiner
    return lambda _, value, other: plain(other, value)


def _with_key(spec: StreamStreamJoin | StreamSelfJoin) -> Joiner:
    """Returns the joiner as a function of (key, left value, right value)."""
    joiner: Joiner = spec.joiner
    plain: Callable[[Any, Any], Any] = spec.joiner
    return joiner if spec.with_key else lambda _, left, right: plain(left, right)
