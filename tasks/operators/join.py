"""Joins of a stream with a table."""

from __future__ import annotations

from typing import Any

from penstock.tasks.closures import closure_of, make_closure
from penstock.tasks.operators.versioned_join import join_as_of
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.operators.join import StreamTableJoin


@closure_of(StreamTableJoin)
def _stream_table_join(spec: StreamTableJoin, wiring: Wiring) -> StreamEdge:
    """Only stream records trigger the join; the table's value is the current one, or of their time if versioned."""
    if spec.table.versioned:
        return join_as_of(spec, wiring)
    forward, context, name = wiring.forward, wiring.context, wiring.name
    failed = wiring.failed_at(*wiring.stores.values())
    joiner, with_key, left = spec.joiner, spec.with_key, spec.left
    look_up = make_closure(spec.table, wiring)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if value is None or (key is None and not left):
            context.dropped_records += 1
            return
        try:
            other = None if key is None else look_up(key)[0]
            if other is None and not left:
                return
            joined = joiner(key, value, other) if with_key else joiner(value, other)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(key, joined, timestamp)

    return run
