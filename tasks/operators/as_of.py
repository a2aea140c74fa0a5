"""Look-ups in a versioned table as of a time: one for each look-up of ``table.py`` that a versioned table can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.state.rows.row_formats import Entry
from penstock.state.versioned.store import VersionedStateStore
from penstock.state.write_buffer.write_buffer import ABSENT
from penstock.tasks.operators.transform_values import transformed_entries
from penstock.tasks.wiring import Wiring
from penstock.topology.physical.operators.operator import ValueGetter
from penstock.topology.physical.operators.table import FilterGetter, MapValuesGetter, StoreGetter
from penstock.topology.physical.operators.transform_values import TransformValuesGetter

AsOfGetter = Callable[[Any, int], Entry]
"""From a key, in the form in which the node that looks receives it, and a time to the table's entry at that time."""


def as_of(getter: ValueGetter, wiring: Wiring) -> AsOfGetter:
    """Returns the function that looks up what the versioned table of ``getter`` held at a time."""
    match getter:
        case StoreGetter():
            return _of_store(getter, wiring)
        case FilterGetter():
            return _filtered(getter, as_of(getter.source, wiring))
        case MapValuesGetter():
            return _mapped(getter, as_of(getter.source, wiring))
        case TransformValuesGetter():
            return _transformed(getter, as_of(getter.source, wiring), wiring)
        case _:
            raise TypeError(f"{type(getter).__name__} says that it is versioned, and cannot be asked as of a time")


def _of_store(spec: StoreGetter, wiring: Wiring) -> AsOfGetter:
    store = wiring.stores[spec.store]
    assert isinstance(store.opened, VersionedStateStore)
    versions = store.opened.versions
    key_bytes = wiring.key_to_bytes(store)
    dirty_get, clean_get, load = versions.latest.dirty.get, versions.latest.clean.get, versions.latest.load
    older = versions.older

    def look_up(key: Any, timestamp: int) -> Entry:
        row = key if key_bytes is None else key_bytes(key)
        entry = dirty_get(row) or clean_get(row) or load(row)
        if entry[0] is not None and entry[1] <= timestamp:
            return entry
        version = older(row, timestamp)
        return ABSENT if version is None else (version.value, version.valid_from, None, 0)

    return look_up


def _filtered(spec: FilterGetter, source: AsOfGetter) -> AsOfGetter:
    predicate, negate, with_key = spec.predicate, spec.negate, spec.with_key

    def filtered(key: Any, timestamp: int) -> Entry:
        entry = source(key, timestamp)
        value = entry[0]
        if value is None:
            return ABSENT
        return entry if bool(predicate(key, value) if with_key else predicate(value)) is not negate else ABSENT

    return filtered


def _mapped(spec: MapValuesGetter, source: AsOfGetter) -> AsOfGetter:
    mapper, with_key = spec.mapper, spec.with_key

    def mapped(key: Any, timestamp: int) -> Entry:
        value, since, _, _ = source(key, timestamp)
        if value is None:
            return ABSENT
        return mapper(key, value) if with_key else mapper(value), since, None, 0

    return mapped


def _transformed(spec: TransformValuesGetter, source: AsOfGetter, wiring: Wiring) -> AsOfGetter:
    transform = transformed_entries(spec, wiring)

    def transformed(key: Any, timestamp: int) -> Entry:
        return transform(key, source(key, timestamp))

    return transformed
