"""Tables: source, filter, map_values, and back to a stream; and the look-ups of each from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.common.windows import Windowed
from penstock.state.rows.row_formats import Entry
from penstock.state.windowed.expiring_store import ExpiringStateStore
from penstock.state.write_buffer.write_buffer import ABSENT
from penstock.tasks.closures import closure_of, make_closure
from penstock.tasks.operators.updates import forward_updates, materialize
from penstock.tasks.wiring import Store, StreamEdge, TableEdge, Wiring
from penstock.topology.physical.operators.operator import TableOperator, ValueGetter
from penstock.topology.physical.operators.table import (
    FilterGetter,
    MapValuesGetter,
    StoreGetter,
    TableFilter,
    TableMapValues,
    TableSource,
    TableToStream,
)
from penstock.topology.physical.operators.table_join import TableJoinGetter
from penstock.topology.processor_api.processor_wrapper import Change

Getter = Callable[[Any], Entry]
"""From a key, in the form in which the node that looks receives it, to the table's entry: value and timestamp.

If the table has no value, it is None, whatever the timestamp.
"""


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
            failed(error, name, key, value, timestamp)
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

    transform = by_key_and_value if spec.with_key else by_value
    return _transformed(spec, transform, wiring, skip_nothing=not spec.of_versions)


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
    """Apply ``transform`` to new and, if they are sent, old values, and keep the result if there is a store for it.

    ``skip_nothing``: with old values at hand, a change from nothing to nothing is no change.
    """
    send_old_values = spec.send_old_values
    skip_nothing = skip_nothing and send_old_values
    if spec.store is not None:
        return materialize(transform, send_old_values, wiring, wiring.stores[spec.store], skip_nothing=skip_nothing)
    failed, name, forward = wiring.failed, wiring.name, wiring.forward_change

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            new = transform(key, new)
            old = transform(key, old) if send_old_values else None
        except Exception as error:
            failed(error, name, key, Change(new, old), timestamp)
            return
        if not (skip_nothing and old is None and new is None):
            forward(key, new, old, timestamp)

    return run


@closure_of(TableToStream)
def _table_to_stream(spec: TableToStream, wiring: Wiring) -> TableEdge:
    forward = wiring.forward

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        forward(key, new, timestamp)

    return run


# ---- looking into a table from elsewhere ----


@closure_of(StoreGetter)
def _store_getter(spec: StoreGetter, wiring: Wiring) -> Getter:
    store = wiring.stores[spec.store]
    if isinstance(store.opened, ExpiringStateStore):
        return _windowed_getter(store)
    key_bytes = wiring.key_to_bytes(store)
    dirty_get, clean_get, load = store.buffer.dirty.get, store.buffer.clean.get, store.buffer.load

    def look_up(key: Any) -> Entry:
        row = key if key_bytes is None else key_bytes(key)
        return dirty_get(row) or clean_get(row) or load(row)

    return _behind_the_cache(store, key_bytes, look_up) if wiring.looks_behind_caches else look_up


def _behind_the_cache(store: Store, key_bytes: Callable[[Any], bytes] | None, look_up: Getter) -> Getter:
    """Returns ``look_up``; for a key whose update waits in the cache of ``store`` it finds the entry forwarded last."""
    buffer = store.buffer
    if not buffer.caching:
        return look_up
    dirty, committed, decode, flushed_before = buffer.dirty, buffer.committed, buffer.decode, buffer.load_not_committed

    def look_behind(key: Any) -> Entry:
        row = key if key_bytes is None else key_bytes(key)
        if row not in dirty:
            return look_up(key)
        flushed = flushed_before(row)
        if flushed is not ABSENT:
            return flushed
        data = committed.get(row)
        return ABSENT if data is None else decode(data)

    return look_behind


def getter_behind_caches(spec: ValueGetter, wiring: Wiring) -> Getter | None:
    """Returns the look-up of ``spec`` that finds the values forwarded last, not the updates that wait in caches. None
    if no cache can hold an update back, or if these values cannot be found: of windows, or by user code with state."""
    if not any(wiring.stores[name].opened.context.caching for name in spec.stores) or not _looks_behind(spec, wiring):
        return None
    getter: Getter = make_closure(spec, replace(wiring, looks_behind_caches=True))
    return getter


def _looks_behind(spec: ValueGetter, wiring: Wiring) -> bool:
    if isinstance(spec, StoreGetter):
        return not isinstance(wiring.stores[spec.store].opened, ExpiringStateStore)
    if isinstance(spec, TableJoinGetter):
        return _looks_behind(spec.left, wiring) and _looks_behind(spec.right, wiring)
    return isinstance(spec, (FilterGetter, MapValuesGetter)) and _looks_behind(spec.source, wiring)


def _windowed_getter(store: Store) -> Getter:
    """Keys are windowed here, and always decoded."""
    entry, key_bytes = store.windowed.entry, store.key_serde.serialize

    def look_up(key: Windowed[Any]) -> Entry:
        return entry(Windowed(key_bytes(key.key), key.window)) or ABSENT

    return look_up


@closure_of(FilterGetter)
def _filter_getter(spec: FilterGetter, wiring: Wiring) -> Getter:
    source, predicate, negate, with_key = make_closure(spec.source, wiring), spec.predicate, spec.negate, spec.with_key

    def filtered(key: Any) -> Entry:
        entry = source(key)
        value = entry[0]
        if value is None:
            return ABSENT
        return entry if bool(predicate(key, value) if with_key else predicate(value)) is not negate else ABSENT

    return filtered


@closure_of(MapValuesGetter)
def _map_values_getter(spec: MapValuesGetter, wiring: Wiring) -> Getter:
    source, mapper, with_key = make_closure(spec.source, wiring), spec.mapper, spec.with_key

    def mapped(key: Any) -> Entry:
        entry = source(key)
        value = entry[0]
        if value is None:
            return ABSENT
        return (mapper(key, value) if with_key else mapper(value)), entry[1], None, 0

    return mapped
