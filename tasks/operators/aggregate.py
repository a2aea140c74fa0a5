"""count, reduce and aggregate of a grouped stream.

All three drop a null key or value, keep the larger of the record's and the aggregate's timestamp, and forward their
update at once, or, if the store caches, when the commit flushes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.state.versioned.store import VersionedStateStore
from penstock.tasks.closures import closure_of
from penstock.tasks.operators.updates import forward_updates
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.operators.aggregate import StreamAggregate, StreamCount, StreamReduce


@closure_of(StreamCount)
def _count(spec: StreamCount, wiring: Wiring) -> StreamEdge:
    """The hot path of most programs, so its store look-up is inlined."""
    store, context = wiring.store, wiring.context
    buffer = store.buffer
    key_bytes = wiring.key_to_bytes(store)
    update = forward_updates(store, wiring, spec.send_old_values)
    dirty, load, put, at_once = buffer.dirty, buffer.load_to_update, buffer.put, not buffer.caching
    past_put = buffer.takes_direct_writes
    dirty_get, next_update_number = dirty.get, buffer.next_update_number
    failed, name = wiring.failed_at(store), wiring.name

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is None or value is None:
            context.dropped_records += 1
            return
        try:
            row = key if key_bytes is None else key_bytes(key)
            old, old_timestamp, _, _ = dirty_get(row) or load(row)
            if old is None:
                new = 1
            else:
                new = old + 1
                if old_timestamp > timestamp:
                    timestamp = old_timestamp
            if past_put:
                # Without put, and so without its sampling of sizes: if nothing was sampled, the memory budget measures
                # one entry for all, and counts are all of one size.
                dirty[row] = (new, timestamp, context.headers, next_update_number())
                return
            put(row, new, timestamp, context.headers)
        except Exception as error:  # a serde that does not fit
            failed(error, name, key, value, timestamp)
            return
        if at_once:
            update(key, new, old or 0, timestamp)

    return run


@closure_of(StreamAggregate)
def aggregate(spec: StreamAggregate, wiring: Wiring) -> StreamEdge:
    """Returns the closure of ``aggregate``, also of each stream of a cogroup."""
    initializer, aggregator = spec.initializer, spec.aggregator

    def fold(key: Any, value: Any, old: Any) -> Any:
        return aggregator(key, value, initializer() if old is None else old)

    return _fold(fold, initializer, spec.send_old_values, wiring)


@closure_of(StreamReduce)
def _reduce(spec: StreamReduce, wiring: Wiring) -> StreamEdge:
    reducer = spec.reducer

    def fold(key: Any, value: Any, old: Any) -> Any:
        return value if old is None else reducer(old, value)

    return _fold(fold, _no_initial_value, spec.send_old_values, wiring)


def _no_initial_value() -> None:
    return None


def _fold(
    fold: Callable[[Any, Any, Any], Any],
    initial: Callable[[], Any],
    send_old_values: bool,
    wiring: Wiring,
) -> StreamEdge:
    """Returns the closure of an aggregate; ``fold(key, value, old or None)`` returns the new aggregate.

    For a key that is new, an uncached aggregate forwards the initial value as the old one, as Kafka Streams does.
    """
    store, context, name = wiring.store, wiring.context, wiring.name
    buffer = store.buffer
    key_bytes = wiring.key_to_bytes(store)
    update = forward_updates(store, wiring, send_old_values)
    dirty_get, load, put = buffer.dirty.get, buffer.load_to_update, buffer.put
    failed, at_once = wiring.failed_at(store), not buffer.caching
    of_versions = isinstance(store.opened, VersionedStateStore)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is None or value is None:
            context.dropped_records += 1
            return
        try:
            row = key if key_bytes is None else key_bytes(key)
            old, old_timestamp, _, _ = dirty_get(row) or load(row)
            newest = timestamp if old is None or timestamp > old_timestamp else old_timestamp
            new = fold(key, value, old)
            if at_once and send_old_values and old is None:
                old = initial()
            # Only in a versioned store does a deletion have its own time; else it is logged at the record's.
            put(row, new, timestamp if new is None and not of_versions else newest, context.headers)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        if at_once:
            update(key, new, old, newest)

    return run
