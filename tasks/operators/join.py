"""Joins of a stream with a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.logical.tables import store_of
from penstock.topology.physical.operators import (
    FilterGetter,
    MapValuesGetter,
    StoreGetter,
    StreamTableJoin,
    ValueGetter,
)


def stream_table_join(spec: StreamTableJoin, wiring: Wiring) -> StreamEdge:
    """See :class:`StreamTableJoin`. Only stream records trigger; the table's value is the one at this moment."""
    forward, context, name = wiring.forward, wiring.context, wiring.name
    failed = wiring.failed_at(wiring.stores[store_of(spec.table)])
    joiner, with_key, left = spec.joiner, spec.with_key, spec.left
    look_up = value_getter(spec.table, wiring)

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


def value_getter(spec: ValueGetter, wiring: Wiring) -> Callable[[Any], Any]:
    """A closure from a key, in the form in which this node receives it, to the table's value or None."""
    match spec:
        case StoreGetter():
            return _store_getter(spec, wiring)
        case FilterGetter():
            source, predicate, negate = value_getter(spec.source, wiring), spec.predicate, spec.negate

            def filtered(key: Any) -> Any:
                value = source(key)
                return value if value is not None and bool(predicate(key, value)) is not negate else None

            return filtered
        case MapValuesGetter():
            inner, mapper, with_key = value_getter(spec.source, wiring), spec.mapper, spec.with_key

            def mapped(key: Any) -> Any:
                value = inner(key)
                if value is None:
                    return None
                return mapper(key, value) if with_key else mapper(value)

            return mapped


def _store_getter(spec: StoreGetter, wiring: Wiring) -> Callable[[Any], Any]:
    store = wiring.stores[spec.store]
    key_bytes = wiring.key_to_bytes(store)
    dirty_get, clean_get, load = store.buffer.dirty.get, store.buffer.clean.get, store.buffer.load

    def look_up(key: Any) -> Any:
        row = key if key_bytes is None else key_bytes(key)
        return (dirty_get(row) or clean_get(row) or load(row))[0]

    return look_up
