"""A table grouped by another key than its own, and its groups aggregated: values are added and subtracted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.changes import Change
from penstock.state.versioned.store import VersionedStateStore
from penstock.tasks.closures import closure_of
from penstock.tasks.operators.stateless import require_pair
from penstock.tasks.operators.updates import forward_updates
from penstock.tasks.operators.versions import latest_only
from penstock.tasks.wiring import StreamEdge, TableEdge, Wiring
from penstock.topology.physical.operators.table_aggregate import (
    TableAggregate,
    TableCount,
    TableGroupBy,
    TableReduce,
)
from penstock.topology.processor_api.processor_wrapper import Change as Update

_NOTHING = None, None

_PLAIN = frozenset((str, bytes, int))
"""Types whose equal values a serde writes alike: not float, of which 0.0 equals -0.0."""


@closure_of(TableGroupBy)
def _table_group_by(spec: TableGroupBy, wiring: Wiring) -> TableEdge:
    """Takes updates, forwards changes: (added or None, taken away or None), as a stream's values."""
    forward, failed, name, selector = wiring.forward, wiring.failed, wiring.name, spec.selector
    same_group = _same_group(wiring)

    def group_of(key: Any, value: Any) -> tuple[Any, Any]:
        pair = selector(key, value)
        if pair is None:
            return _NOTHING
        if type(pair) is not tuple or len(pair) != 2:
            require_pair("group_by", "selector", "return (key, value)", pair)
        return _NOTHING if pair[0] is None or pair[1] is None else pair

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            if key is None:
                raise ValueError("an update of a table that is grouped has a null key")
            new_key, added = _NOTHING if new is None else group_of(key, new)
            old_key, removed = _NOTHING if old is None else group_of(key, old)
            same = removed is not None and added is not None and same_group(old_key, new_key)
        except Exception as error:
            failed(error, name, key, Update(new, old), timestamp)
            return
        if same:
            forward(new_key, (added, removed), timestamp)
            return
        if removed is not None:
            forward(old_key, (None, removed), timestamp)
        if added is not None:
            forward(new_key, (added, None), timestamp)

    return latest_only(run, wiring.context, counted=False) if spec.of_versions else run


def _same_group(wiring: Wiring) -> Callable[[Any, Any], bool]:
    """Returns the test for two keys of the same group, which their bytes in the repartition topic decide.

    Python's ``==`` would join groups that are two rows of the aggregate: 1, 1.0 and True, or dicts in another order.
    """
    writers = [serde.serialize for serde in wiring.sink_key_serdes]

    def same_group(old: Any, new: Any) -> bool:
        kind = type(new)
        if kind in _PLAIN and type(old) is kind:
            return bool(old == new)
        try:
            return all(write(old) == write(new) for write in writers)
        except Exception:  # the sink reports the key that it cannot write
            return False

    return same_group


@closure_of(TableCount)
def _table_count(spec: TableCount, wiring: Wiring) -> StreamEdge:
    def fold(key: Any, added: Any, removed: Any, count: Any) -> Any:
        if removed is not None and count is not None:
            count -= 1
        if added is not None:
            count = 1 if count is None else count + 1
        return count

    return _folded(fold, spec.send_old_values, wiring)


@closure_of(TableAggregate)
def _table_aggregate(spec: TableAggregate, wiring: Wiring) -> StreamEdge:
    initializer, adder, subtractor = spec.initializer, spec.adder, spec.subtractor

    def fold(key: Any, added: Any, removed: Any, aggregate: Any) -> Any:
        if removed is not None and aggregate is not None:
            aggregate = subtractor(key, removed, aggregate)
        if added is not None:
            aggregate = adder(key, added, initializer() if aggregate is None else aggregate)
        return aggregate

    return _folded(fold, spec.send_old_values, wiring)


@closure_of(TableReduce)
def _table_reduce(spec: TableReduce, wiring: Wiring) -> StreamEdge:
    adder, subtractor = spec.adder, spec.subtractor

    def fold(key: Any, added: Any, removed: Any, aggregate: Any) -> Any:
        if removed is not None and aggregate is not None:
            aggregate = subtractor(aggregate, removed)
        if added is not None:
            aggregate = added if aggregate is None else adder(aggregate, added)
        return aggregate

    return _folded(fold, spec.send_old_values, wiring)


def _folded(fold: Callable[[Any, Any, Any, Any], Any], send_old_values: bool, wiring: Wiring) -> StreamEdge:
    """Returns the closure; ``fold(key, added or None, taken away or None, old or None)`` returns the new aggregate."""
    store, context, name = wiring.store, wiring.context, wiring.name
    buffer = store.buffer
    key_bytes = wiring.key_to_bytes(store)
    update = forward_updates(store, wiring, send_old_values)
    dirty_get, load, put = buffer.dirty.get, buffer.load_to_update, buffer.put
    failed, at_once = wiring.failed_at(store), not buffer.caching
    of_versions = isinstance(store.opened, VersionedStateStore)

    def run(key: Any, change: Change, timestamp: int) -> None:
        try:
            if key is None:
                raise ValueError("a record of a grouped table has a null key")
            added, removed = change
            row = key if key_bytes is None else key_bytes(key)
            old, old_timestamp, _, _ = dirty_get(row) or load(row)
            newest = timestamp if old is None or timestamp > old_timestamp else old_timestamp
            new = fold(key, added, removed, old)
            # Only in a versioned store does a deletion have its own time; else it is logged at the record's.
            put(row, new, timestamp if new is None and not of_versions else newest, context.headers)
        except Exception as error:
            failed(error, name, key, Update(*change), timestamp)
            return
        if at_once:
            update(key, new, old, newest)

    return run
