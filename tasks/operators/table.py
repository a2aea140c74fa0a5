"""Tables: source, filter, map_values, and back to a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.tasks.closures import closure_of
from penstock.tasks.operators.updates import forward_updates
from penstock.tasks.wiring import StreamEdge, TableEdge, Wiring
from penstock.topology.physical.operator import TableOperator
from penstock.topology.physical.operators import TableFilter, TableMapValues, TableSource, TableToStream


@closure_of(TableSource)
def _table_source(spec: TableSource, wiring: Wiring) -> StreamEdge:
    """Updates take effect in offset order, whatever their timestamps."""
    context = wiring.context
    if spec.store is None:
        forward = wiring.forward_change

        def pass_on(key: Any, value: Any, timestamp: int) -> None:
            if key is None:
                context.dropped_records += 1
                return
            forward(key, value, None, timestamp)

        return pass_on

    store = wiring.store
    buffer = store.buffer
    key_bytes = wiring.key_to_bytes(store)
    update = forward_updates(store, wiring, spec.send_old_values)
    get, put, at_once = buffer.get, buffer.put, not buffer.caching
    failed, name, with_old = wiring.failed_at(store), wiring.name, at_once and spec.send_old_values

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            context.dropped_records += 1
            return
        try:
            row = key if key_bytes is None else key_bytes(key)
            entry = get(row) if with_old else None
            put(row, value, timestamp, context.headers)
        except Exception as error:  # a serde that does not fit
            failed(error, name, key)
            return
        if at_once:
            update(key, value, None if entry is None else entry[0], timestamp)

    return run


@closure_of(TableFilter)
def _table_filter(spec: TableFilter, wiring: Wiring) -> TableEdge:
    predicate, negate = spec.predicate, spec.negate

    def by_value(key: Any, value: Any) -> Any:
        return value if value is not None and bool(predicate(value)) is not negate else None

    def by_key_and_value(key: Any, value: Any) -> Any:
        return value if value is not None and bool(predicate(key, value)) is not negate else None

    return _transformed(spec, by_key_and_value if spec.with_key else by_value, wiring, skip_nothing=True)


@closure_of(TableMapValues)
def _table_map_values(spec: TableMapValues, wiring: Wiring) -> TableEdge:
    mapper, with_key = spec.mapper, spec.with_key

    def transform(key: Any, value: Any) -> Any:
        if value is None:
            return None
        return mapper(key, value) if with_key else mapper(value)

    return _transformed(spec, transform, wiring, skip_nothing=False)


def _transformed(
    spec: TableOperator, transform: Callable[[Any, Any], Any], wiring: Wiring, *, skip_nothing: bool
) -> TableEdge:
    """Apply ``transform`` to new and, where asked for, old values, and keep the result if there is a store for it.

    ``skip_nothing``: with old values at hand, a change from nothing to nothing is no change.
    """
    send_old_values = spec.send_old_values
    skip_nothing = skip_nothing and send_old_values
    if spec.store is not None:
        return _kept(transform, send_old_values, wiring, skip_nothing=skip_nothing)
    failed, name, forward = wiring.failed, wiring.name, wiring.forward_change

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            new = transform(key, new)
            old = transform(key, old) if send_old_values else None
        except Exception as error:
            failed(error, name, key)
            return
        if not (skip_nothing and old is None and new is None):
            forward(key, new, old, timestamp)

    return run


def _kept(
    transform: Callable[[Any, Any], Any], send_old_values: bool, wiring: Wiring, *, skip_nothing: bool
) -> TableEdge:
    """As above, into a store: old values are the store's own, whether the source tells its old ones or not."""
    store, context = wiring.store, wiring.context
    buffer = store.buffer
    key_bytes = wiring.key_to_bytes(store)
    update = forward_updates(store, wiring, send_old_values)
    get, put, at_once, refused = buffer.get, buffer.put, not buffer.caching, wiring.failed_at(store)
    failed, name, with_old = wiring.failed, wiring.name, at_once and send_old_values

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            new = transform(key, new)
        except Exception as error:
            failed(error, name, key)
            return
        deletes = skip_nothing and new is None
        try:
            row = key if key_bytes is None else key_bytes(key)
            entry = get(row) if with_old or deletes else None
            if deletes and entry is None:
                return
            put(row, new, timestamp, context.headers)
        except Exception as error:  # a serde that does not fit
            refused(error, name, key)
            return
        if at_once:
            update(key, new, None if entry is None else entry[0], timestamp)

    return run


@closure_of(TableToStream)
def _table_to_stream(spec: TableToStream, wiring: Wiring) -> TableEdge:
    forward = wiring.forward

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        forward(key, new, timestamp)

    return run
