"""``suppress``: updates of a table that wait, and the values that look-ups in the table find meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.errors import BufferFullError
from penstock.state.buffers.change_buffer import ChangeBuffer
from penstock.state.rows.row_formats import NO_TIMESTAMP, Entry
from penstock.tasks.closures import closure_of, make_closure
from penstock.tasks.operators.table import Getter
from penstock.tasks.wiring import Store, TableEdge, Wiring
from penstock.topology.physical.operators.suppress import Suppress, SuppressGetter
from penstock.topology.processor_api.processor_wrapper import Change


@closure_of(Suppress)
def _suppress(spec: Suppress, wiring: Wiring) -> TableEdge:
    """The stream time of ``suppress`` is that of the updates that reached it in this task."""
    store, context, name = wiring.store, wiring.context, wiring.name
    buffer = _buffer(store)
    key_bytes, put, order, source = wiring.key_to_bytes(store), buffer.put, buffer.order, context.source
    emit, keep_within_limits = _emitter(spec, buffer, wiring), _limiter(spec, buffer, wiring)
    wait_ms, by_window, refused = spec.wait_ms, spec.until_window_closes, wiring.failed_at(store)
    observed = wiring.observed_time()

    def advance(time: int) -> None:
        observed.ms = context.timestamp = time
        buffer.ensure_order()
        while order and order[0][0] <= time - wait_ms:
            emit()

    wiring.advances_when_idle(observed, advance, holds=lambda: len(buffer) > 0)

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if timestamp > observed.ms:
            observed.ms = timestamp
        try:
            row = key if key_bytes is None else key_bytes(key)
            time = key.window.end if by_window else timestamp
            put(row, time, old, new, timestamp, context.headers, *source(), key)
        except Exception as error:  # a serde that does not fit
            refused(error, name, key, Change(new, old), timestamp)
            return
        due = observed.ms - wait_ms
        while order and order[0][0] <= due:
            emit()
        if keep_within_limits is not None:
            keep_within_limits(emit, key)

    return run


def _emitter(spec: Suppress, buffer: ChangeBuffer, wiring: Wiring) -> Callable[[], None]:
    """Returns the function that forwards the first update in order, as if the record that caused it arrived now."""
    find, remove_first, order, context = buffer.find, buffer.remove_first, buffer.order, wiring.context
    forward, to_key = wiring.forward_change, wiring.bytes_to_key(wiring.store)
    drops_deletions = spec.until_window_closes

    def emit() -> None:
        row = order[0][1]
        waits = find(row)
        assert waits is not None
        _, _, old, new, timestamp, headers, source, offset, key = waits
        if new is not None or not drops_deletions:
            before = context.enter_held_back(source, offset, headers, timestamp)
            try:
                # To look-ups in the table that are made now, the update still waits.
                forward(to_key(row) if key is None else key, new, old, timestamp)
            finally:
                context.leave_held_back(before)
        remove_first()

    return emit


def _limiter(spec: Suppress, buffer: ChangeBuffer, wiring: Wiring) -> Callable[[Callable[[], None], Any], None] | None:
    """Returns the function that keeps a buffer within its limits; None if it has none."""
    order, emit_early = buffer.order, spec.emit_early
    most_records = float("inf") if spec.max_records is None else spec.max_records
    most_bytes = float("inf") if spec.max_bytes is None else spec.max_bytes
    if spec.max_records is None and spec.max_bytes is None:
        return None
    if spec.max_bytes is not None:
        buffer.count_bytes()

    def keep(emit: Callable[[], None], key: Any) -> None:
        while len(order) > most_records or buffer.counted_bytes > most_bytes:
            if not emit_early:
                raise _full(spec, buffer, wiring, key)
            if not order:
                return
            emit()

    return keep


def _full(spec: Suppress, buffer: ChangeBuffer, wiring: Wiring, key: Any) -> BufferFullError:
    held, limits = [f"{len(buffer.order)} keys"], []
    if spec.max_records is not None:
        limits.append(f"{spec.max_records} keys")
    if spec.max_bytes is not None:
        held.append(f"{buffer.counted_bytes} bytes")
        limits.append(f"{spec.max_bytes} bytes")
    source, offset = wiring.context.source()
    return BufferFullError(
        f"the buffer would hold {' of '.join(held)}, and may hold {', '.join(limits)}: give BufferConfig a larger "
        "limit, or let it emit early (emit_early_when_full)",
        operator=wiring.name,
        topic=source.topic if source else None,
        partition=source.partition if source else None,
        offset=offset if source else None,
        key=wiring.readable_key(key),
    )


@closure_of(SuppressGetter)
def _suppress_getter(spec: SuppressGetter, wiring: Wiring) -> Getter:
    store = wiring.stores[spec.buffer]
    find, key_bytes, source = _buffer(store).find, wiring.key_to_bytes(store), make_closure(spec.source, wiring)

    def look_up(key: Any) -> Entry:
        waits = find(key if key_bytes is None else key_bytes(key))
        # The time of the earlier value is not known.
        return source(key) if waits is None else (waits[1], NO_TIMESTAMP, None, 0)

    return look_up


def _buffer(store: Store) -> ChangeBuffer:
    assert isinstance(store.opened, ChangeBuffer)
    return store.opened
