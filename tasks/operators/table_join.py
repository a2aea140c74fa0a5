"""Joins of two tables by their primary keys."""

from __future__ import annotations

from typing import Any

from penstock.state.rows.row_formats import Entry
from penstock.state.write_buffer.write_buffer import ABSENT
from penstock.tasks.closures import closure_of, make_closure
from penstock.tasks.operators.table import Getter, getter_behind_caches
from penstock.tasks.operators.updates import forward_updates
from penstock.tasks.operators.versions import latest_only
from penstock.tasks.wiring import TableEdge, Wiring
from penstock.topology.physical.operators.table_join import TableJoinGetter, TableJoinMerge, TableTableJoin
from penstock.topology.processor_api.processor_wrapper import Change


@closure_of(TableTableJoin)
def _table_table_join(spec: TableTableJoin, wiring: Wiring) -> TableEdge:
    """The other table's value is the current one; the result has the larger of the two timestamps.

    In an inner join, if caches hold deletions of both sides back, neither finds a value of the other when it is
    flushed, and in Kafka Streams the result remains forever. Here the side that is flushed first looks below the other
    one's cache, and deletes the result. A side without a cache does not look: it may delete a row several times before
    the other side is flushed, and would delete the same result each time. A table and one that comes from it do not
    look either: in Kafka Streams their result stays without caches, too.
    """
    forward, context, name = wiring.forward_change, wiring.context, wiring.name
    failed = wiring.failed_at(*wiring.stores.values())
    joiner, reversed, send_old_values = spec.joiner, spec.reversed, spec.send_old_values
    keeps_own, keeps_other = spec.keeps_own, spec.keeps_other
    look_up: Getter = make_closure(spec.other, wiring)
    is_flushed = wiring.cached_stores.issuperset(spec.own_stores)
    looks_behind = is_flushed and not keeps_own and not keeps_other and not spec.of_related_tables
    look_behind = getter_behind_caches(spec.other, wiring) if looks_behind else None

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if key is None:
            context.dropped_records += 1
            return
        try:
            entry = look_up(key)
            other = entry[0]
            if other is None:
                if new is None and look_behind is not None:
                    other = look_behind(key)[0]
                if other is None and (not keeps_own or (new is None and old is None)):
                    return
                if entry[1] > timestamp and not keeps_own:
                    timestamp = entry[1]
                joins_nothing = False
            else:
                if entry[1] > timestamp:
                    timestamp = entry[1]
                joins_nothing = keeps_other
            value, before = new, old
            if new is not None or joins_nothing:
                value = joiner(other, new) if reversed else joiner(new, other)
            if not send_old_values:
                before = None
            elif old is not None or joins_nothing:
                before = joiner(other, old) if reversed else joiner(old, other)
        except Exception as error:
            failed(error, name, key, Change(new, old), timestamp)
            return
        forward(key, value, before, timestamp)

    return latest_only(run, context, counted=True) if spec.of_versions else run


@closure_of(TableJoinMerge)
def _table_join_merge(spec: TableJoinMerge, wiring: Wiring) -> TableEdge:
    """The sides send old values if, and only if, this node must: without a store it forwards them as they are."""
    if spec.store is None:
        return wiring.forward_change
    store, context, name = wiring.store, wiring.context, wiring.name
    buffer = store.buffer
    key_bytes = wiring.key_to_bytes(store)
    update = forward_updates(store, wiring, spec.send_old_values)
    put, at_once, failed = buffer.put, not buffer.caching, wiring.failed_at(store)

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            put(key if key_bytes is None else key_bytes(key), new, timestamp, context.headers)
        except Exception as error:  # a serde that does not fit
            failed(error, name, key, Change(new, old), timestamp)
            return
        if at_once:
            update(key, new, old, timestamp)

    return run


@closure_of(TableJoinGetter)
def _table_join_getter(spec: TableJoinGetter, wiring: Wiring) -> Getter:
    left_of: Getter = make_closure(spec.left, wiring)
    right_of: Getter = make_closure(spec.right, wiring)
    joiner, keeps_left, keeps_right = spec.joiner, spec.keeps_left, spec.keeps_right

    def joined(key: Any) -> Entry:
        left = left_of(key)
        if left[0] is None and not keeps_right:
            return ABSENT
        right = right_of(key)
        if right[0] is None:
            if left[0] is None or not keeps_left:
                return ABSENT
            return joiner(left[0], None), left[1], None, 0
        if left[0] is None:
            return joiner(None, right[0]), right[1], None, 0
        return joiner(left[0], right[0]), max(left[1], right[1]), None, 0

    return joined
