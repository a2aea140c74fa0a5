"""Versioned tables: how their updates are handed on, and what they held at the time of a stream's record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.state.versioned.store import VersionedStateStore
from penstock.state.versioned.versions import NOT_PUT, VALID_TO_UNDEFINED
from penstock.tasks.context import TaskContext
from penstock.tasks.wiring import TableEdge, Wiring
from penstock.topology.physical.operator import ValueGetter
from penstock.topology.physical.operators import FilterGetter, MapValuesGetter, StoreGetter

AsOfGetter = Callable[[Any, int], Any]
"""From a key, in the form in which the node that looks receives it, and a time to the table's value then, or None."""


def forward_versions(
    store: VersionedStateStore, forward: TableEdge, context: TaskContext, send_old_values: bool
) -> TableEdge:
    """Hands on the update that was put into ``store`` last, unless it was too late to be put.

    Whoever must tell a part of history from what is latest asks ``context.is_latest`` while the update passes.
    """
    buffer = store.versions.latest

    def now(key: Any, new: Any, old: Any, timestamp: int) -> None:
        valid_to = buffer.valid_to
        if valid_to == NOT_PUT:
            return
        before, context.is_latest = context.is_latest, valid_to == VALID_TO_UNDEFINED
        try:
            forward(key, new, old if send_old_values else None, timestamp)
        finally:
            context.is_latest = before

    return now


def latest_only(edge: TableEdge, context: TaskContext, *, counted: bool) -> TableEdge:
    """``edge`` without the updates that are part of a versioned table's history: for the operators whose result is of
    what is latest. ``counted`` as dropped records, or not."""

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if context.is_latest:
            edge(key, new, old, timestamp)
        elif counted:
            context.dropped_records += 1

    return run


def as_of(getter: ValueGetter, wiring: Wiring) -> AsOfGetter:
    """How to look up what the versioned table of ``getter`` held at a time."""
    match getter:
        case StoreGetter():
            return _as_of_store(getter, wiring)
        case FilterGetter():
            return _as_of_filtered(getter, as_of(getter.source, wiring))
        case MapValuesGetter():
            return _as_of_mapped(getter, as_of(getter.source, wiring))
        case _:
            raise TypeError(f"{type(getter).__name__} says that it is versioned, and cannot be asked as of a time")


def _as_of_store(spec: StoreGetter, wiring: Wiring) -> AsOfGetter:
    store = wiring.stores[spec.store]
    assert isinstance(store.opened, VersionedStateStore)
    versions = store.opened.versions
    key_bytes = wiring.key_to_bytes(store)
    dirty_get, clean_get, load = versions.latest.dirty.get, versions.latest.clean.get, versions.latest.load
    older = versions.older

    def look_up(key: Any, timestamp: int) -> Any:
        row = key if key_bytes is None else key_bytes(key)
        value, since, _, _ = dirty_get(row) or clean_get(row) or load(row)
        if value is not None and since <= timestamp:
            return value
        version = older(row, timestamp)
        return None if version is None else version.value

    return look_up


def _as_of_filtered(spec: FilterGetter, source: AsOfGetter) -> AsOfGetter:
    predicate, negate, with_key = spec.predicate, spec.negate, spec.with_key

    def filtered(key: Any, timestamp: int) -> Any:
        value = source(key, timestamp)
        if value is None:
            return None
        return value if bool(predicate(key, value) if with_key else predicate(value)) is not negate else None

    return filtered


def _as_of_mapped(spec: MapValuesGetter, source: AsOfGetter) -> AsOfGetter:
    mapper, with_key = spec.mapper, spec.with_key

    def mapped(key: Any, timestamp: int) -> Any:
        value = source(key, timestamp)
        if value is None:
            return None
        return mapper(key, value) if with_key else mapper(value)

    return mapped
