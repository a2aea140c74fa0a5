"""Joins of a stream with a versioned table: with its value at the time of each record, at once or after a grace
period."""

from __future__ import annotations

from typing import Any

from penstock.state.versioned.join_buffer import JoinBuffer
from penstock.tasks.closures import closure_of
from penstock.tasks.operators.as_of import as_of
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.operators.join import StreamTableJoin
from penstock.topology.physical.operators.versioned_join import BufferedStreamTableJoin


def join_as_of(spec: StreamTableJoin, wiring: Wiring) -> StreamEdge:
    """Returns the closure of the join: only stream records trigger it; the table's value is of the record's time."""
    forward, context, name = wiring.forward, wiring.context, wiring.name
    failed = wiring.failed_at(*(wiring.stores[store] for store in spec.table.stores))
    joiner, with_key, left = spec.joiner, spec.with_key, spec.left
    look_up = as_of(spec.table, wiring)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if value is None or (key is None and not left):
            context.dropped_records += 1
            return
        try:
            other = None if key is None else look_up(key, timestamp)[0]
            if other is None and not left:
                return
            joined = joiner(key, value, other) if with_key else joiner(value, other)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(key, joined, timestamp)

    return run


@closure_of(BufferedStreamTableJoin)
def _buffered_stream_table_join(spec: BufferedStreamTableJoin, wiring: Wiring) -> StreamEdge:
    """Each record that is put into the buffer releases those that have waited long enough; one that comes too late for
    the buffer does not. A released record has its own timestamp, headers, partition and offset."""
    context, name, left = wiring.context, wiring.name, spec.left
    store = wiring.stores[spec.buffer]
    buffer = store.opened
    assert isinstance(buffer, JoinBuffer)
    key_bytes, to_key, failed = wiring.key_to_bytes(store), wiring.bytes_to_key(store), wiring.failed_at(store)
    join = join_as_of(spec, wiring)

    observed = wiring.observed_time()

    def advance(time: int) -> None:
        observed.ms = context.timestamp = time
        buffer.observe(time)
        let_go()

    def now() -> int:
        return max(observed.ms, buffer.stream_time)

    wiring.advances_when_idle(observed, advance, now, lambda: buffer.waits, buffer.observe)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if value is None or (key is None and not left):
            context.dropped_records += 1
            return
        if key is None:
            failed(
                ValueError("a record without a key cannot wait in a join with a grace period"),
                name,
                key,
                value,
                timestamp,
            )
            return
        if buffer.is_too_late(timestamp):
            join(key, value, timestamp)
            return
        try:
            row = key if key_bytes is None else key_bytes(key)
            buffer.put(row, value, timestamp, context.headers, *context.source())
            if timestamp > observed.ms:
                observed.ms = timestamp
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        if buffer.has_due:
            let_go()

    def let_go() -> None:
        for key, value, timestamp, headers, source, offset in buffer.due():
            before = context.enter_held_back(source, offset, headers, timestamp)
            try:
                join(to_key(key), value, timestamp)
            finally:
                context.leave_held_back(before)

    return run
