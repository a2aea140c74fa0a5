"""Joins of a stream with a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.tasks.closures import closure_of, make_closure
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.operators import FilterGetter, MapValuesGetter, StoreGetter, StreamTableJoin

Getter = Callable[[Any], Any]
"""From a key, in the form in which the node that looks receives it, to the table's value or None."""


@closure_of(StreamTableJoin)
def _stream_table_join(spec: StreamTableJoin, wiring: Wiring) -> StreamEdge:
    """Only stream records trigger; the table's value is the one at this moment."""
    forward, context, name = wiring.forward, wiring.context, wiring.name
    failed = wiring.failed_at(wiring.store)
    joiner, with_key, left = spec.joiner, spec.with_key, spec.left
    look_up = make_closure(spec.table, wiring)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if value is None or (key is None and not left):
            context.dropped_records += 1
            return
        try:
            other = None if key is None else look_up(key)
            if other is None and not left:
                return
            joined = joiner(key, value, other) if with_key else joiner(value, other)
        except Exception as error:
            failed(error, name, key)
            return
        forward(key, joined, timestamp)

    return run


@closure_of(StoreGetter)
def _store_getter(spec: StoreGetter, wiring: Wiring) -> Getter:
    store = wiring.stores[spec.store]
    key_bytes = wiring.key_to_bytes(store)
    dirty_get, clean_get, load = store.buffer.dirty.get, store.buffer.clean.get, store.buffer.load

    def look_up(key: Any) -> Any:
        row = key if key_bytes is None else key_bytes(key)
        return (dirty_get(row) or clean_get(row) or load(row))[0]

    return look_up


@closure_of(FilterGetter)
def _filter_getter(spec: FilterGetter, wiring: Wiring) -> Getter:
    source, predicate, negate, with_key = make_closure(spec.source, wiring), spec.predicate, spec.negate, spec.with_key

    def filtered(key: Any) -> Any:
        value = source(key)
        if value is None:
            return None
        return value if bool(predicate(key, value) if with_key else predicate(value)) is not negate else None

    return filtered


@closure_of(MapValuesGetter)
def _map_values_getter(spec: MapValuesGetter, wiring: Wiring) -> Getter:
    source, mapper, with_key = make_closure(spec.source, wiring), spec.mapper, spec.with_key

    def mapped(key: Any) -> Any:
        value = source(key)
        if value is None:
            return None
        return mapper(key, value) if with_key else mapper(value)

    return mapped
