"""Expiry of the rows of tables and stores (``with_ttl``): its time, and the updates that it causes downstream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.state.key_value.ttl_store import TtlStateStore
from penstock.tasks.context import Remembered, TaskContext
from penstock.tasks.offsets import TTL_TIME
from penstock.tasks.wiring import Edge, Store, Wiring
from penstock.topology.physical.operators.operator import TableOperator

OnExpired = Callable[[bytes, Any, int], None]
"""Called with each row that has expired: (key, value, time)."""


class Expiry:
    """The stores of one task whose rows expire, by the task's stream time: the largest timestamp that it has processed,
    of whatever input."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._stores: dict[str, tuple[TtlStateStore, OnExpired | None]] = {}
        self.observed = Remembered()

    def __bool__(self) -> bool:
        return bool(self._stores)

    @property
    def forwards(self) -> list[OnExpired]:
        """The functions that forward the deletions of expired rows."""
        return [on_expired for _, on_expired in self._stores.values() if on_expired is not None]

    def add(self, store: Store, on_expired: OnExpired | None) -> None:
        """Add a store, if its rows expire. Those added last expire first: parents come after their children."""
        opened = store.opened
        if isinstance(opened, TtlStateStore):
            _, known = self._stores.get(store.builder.name, (None, None))
            # If several nodes write one store (cogroup), they have the same children.
            self._stores[store.builder.name] = opened, known or on_expired

    def begin(self, stores: Iterable[Store]) -> None:
        """Add those of ``stores`` that no table has added, and let the task's time advance while it is idle, if that is
        configured."""
        for store in stores:
            self.add(store, None)
        context = self._context
        if self._stores and context.idle is not None:
            # A time that has advanced without records is no record's time, so it must be remembered.
            self.observed = context.remembered.setdefault(TTL_TIME, self.observed)
            context.idle.add_of_all(self.observed, self.observe)

    def resume(self) -> None:
        """Continue from the committed stream time, which is known by now."""
        self.observed.ms = max(self.observed.ms, self._context.stream_time)
        for store, _ in self._stores.values():
            store.buffer.latest_expired = self.observed.ms - store.ttl_ms

    def observe(self, time: int) -> None:
        """Advance to ``time``: delete the rows that have expired, before anything else is done at that time."""
        if time <= self.observed.ms:
            return
        self.observed.ms = time
        for store, on_expired in reversed(self._stores.values()):
            if store.may_expire(time):
                self._expire(store, on_expired, time)

    def _expire(self, store: TtlStateStore, on_expired: OnExpired | None, time: int) -> None:
        context = self._context
        for key, value, expired_at in store.expire(time):
            if on_expired is not None:
                before = context.enter_held_back(None, -1, None, expired_at)
                try:
                    on_expired(key, value, expired_at)
                finally:
                    context.leave_held_back(before)


def expiring(operator: TableOperator, edge: Edge, wiring: Wiring, expiry: Expiry) -> Edge:
    """Returns ``edge`` without updates that have expired already; ``edge`` itself if the table's rows do not expire."""
    store = None if operator.store is None else wiring.stores.get(operator.store)
    if store is None or not isinstance(store.opened, TtlStateStore):
        return edge
    buffer, context = store.opened.buffer, wiring.context
    # A cached store forwards its deletions when it is flushed, like any update.
    expiry.add(store, None if buffer.caching else _forward(operator.send_old_values, wiring, store))

    def run(key: Any, value: Any, *rest: Any) -> None:
        if value is not None and rest[-1] <= buffer.latest_expired:
            context.dropped_records += 1  # it has expired on its way here
            return
        edge(key, value, *rest)

    return run


def _forward(send_old_values: bool, wiring: Wiring, store: Store) -> OnExpired:
    forward, to_key = wiring.forward_change, wiring.bytes_to_key(store)

    def on_expired(key: bytes, value: Any, expired_at: int) -> None:
        forward(to_key(key), None, value if send_old_values else None, expired_at)

    return on_expired
