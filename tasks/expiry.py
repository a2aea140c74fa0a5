"""Tables and stores whose rows expire (``with_ttl``): when, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.state.key_value.ttl_store import TtlStateStore
from penstock.tasks.context import Remembered, TaskContext
from penstock.tasks.offsets import TTL_TIME
from penstock.tasks.wiring import Edge, Store, Wiring
from penstock.topology.physical.operator import TableOperator

Told = Callable[[bytes, Any, int], None]
"""Hears of each row that has expired: (key, value, when)."""


class Expiry:
    """The stores of one task whose rows expire, by the task's stream time: the largest timestamp that it has processed,
    of whatever input."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._stores: dict[str, tuple[TtlStateStore, Told | None]] = {}
        self.observed = Remembered()

    def __bool__(self) -> bool:
        return bool(self._stores)

    def add(self, store: Store, told: Told | None) -> None:
        """A store of the task. Those that were added last expire first: parents come after their children."""
        opened = store.opened
        if isinstance(opened, TtlStateStore):
            _, known = self._stores.get(store.builder.name, (None, None))
            # Where several nodes write one store (cogroup) they have the same children.
            self._stores[store.builder.name] = opened, known or told

    def begin(self) -> None:
        """The task begins, with the stream time that it has by then."""
        context = self._context
        if self._stores and context.idle is not None:
            # What has gone on without records is no record's time, so it must be remembered.
            self.observed = context.remembered.setdefault(TTL_TIME, self.observed)
            context.idle.add_of_all(self.observed, self.observe)

    def resume(self) -> None:
        """What was committed is known."""
        self.observed.ms = max(self.observed.ms, self._context.stream_time)
        for store, _ in self._stores.values():
            store.buffer.latest_expired = self.observed.ms - store.ttl_ms

    def observe(self, time: int) -> None:
        """Stream time has come to ``time``: delete what has expired before anything else is done at that time."""
        if time <= self.observed.ms:
            return
        self.observed.ms = time
        for store, told in reversed(self._stores.values()):
            if store.may_expire(time):
                self._expire(store, told, time)

    def _expire(self, store: TtlStateStore, told: Told | None, time: int) -> None:
        context = self._context
        for key, value, expired_at in store.expire(time):
            if told is not None:
                before = context.enter_buffered(None, -1, None, expired_at)
                try:
                    told(key, value, expired_at)
                finally:
                    context.leave_buffered(before)


def expiring(operator: TableOperator, edge: Edge, wiring: Wiring, expiry: Expiry) -> Edge:
    """``edge`` of a table whose own rows may expire; the same, if they do not."""
    store = None if operator.store is None else wiring.stores.get(operator.store)
    if store is None or not isinstance(store.opened, TtlStateStore):
        return edge
    buffer, context = store.opened.buffer, wiring.context
    # A cached store tells its children when it is flushed, of a deletion as of any update.
    expiry.add(store, None if buffer.caching else _forward(operator.send_old_values, wiring, store))

    def run(key: Any, value: Any, *rest: Any) -> None:
        if value is not None and rest[-1] <= buffer.latest_expired:
            context.dropped_records += 1  # it has expired on its way here
            return
        edge(key, value, *rest)

    return run


def _forward(send_old_values: bool, wiring: Wiring, store: Store) -> Told:
    forward, to_key = wiring.forward_change, wiring.bytes_to_key(store)

    def told(key: bytes, value: Any, expired_at: int) -> None:
        forward(to_key(key), None, value if send_old_values else None, expired_at)

    return told
