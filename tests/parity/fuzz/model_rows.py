"""The tables of the reference model: rows in a dictionary, all of which are read each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

RunChange = Callable[[Any, Any, Any, int], None]
"""A function of key, new value, old value and timestamp."""

_ITS_OWN = object()


class Row(NamedTuple):
    """The row of a key."""

    value: Any
    timestamp: int


def in_order(key: Any) -> bytes:
    """Returns the sort key of ``key``: its serialized bytes."""
    return key.encode() if isinstance(key, str) else int(key).to_bytes(8, "big", signed=True)


class Table:
    """Rows by key. ``cached``: updates are forwarded at the next commit."""

    def __init__(self, ttl_ms: int | None = None, cached: bool = False) -> None:
        self.ttl_ms, self.now = ttl_ms, -1
        self.rows: dict[Any, Row] = {}
        self.reported: list[RunChange] = []
        self._cached = cached
        self._changed: dict[Any, tuple[Any, int]] = {}

    def put(self, key: Any, value: Any, timestamp: int, old_value_sent: Any = _ITS_OWN, at: int | None = None) -> None:
        """Updates a row, or deletes it if ``value`` is None. ``old_value_sent``: forwarded as the old value, without a
        cache, instead of the row's own. ``at``: the time that a cache forwards with a deletion, if it is another
        one."""
        before = self.rows.pop(key, None)
        if value is not None:
            self.rows[key] = Row(value, timestamp)
        old = None if before is None else before.value
        if self._cached:
            first, _ = self._changed.pop(key, (old, 0))
            self._changed[key] = first, timestamp if at is None or value is not None else at
        else:
            self.tell(key, value, old if old_value_sent is _ITS_OWN else old_value_sent, timestamp)

    def commit(self) -> None:
        """Forwards what has changed: each key once, in the order of the last updates."""
        changed, self._changed = self._changed, {}
        for key, (old, timestamp) in changed.items():
            now = self.rows.get(key)
            if now is not None or old is not None:
                self.tell(key, None if now is None else now.value, old, timestamp)

    def tell(self, key: Any, new: Any, old: Any, timestamp: int) -> None:
        """Forwards an update to all steps that continue from the table."""
        for reported in self.reported:
            reported(key, new, old, timestamp)

    def expired(self, now: int) -> list[tuple[int, Any]]:
        """Returns the expiry time and the key of each row that has expired by ``now``; by time, then by key."""
        assert self.ttl_ms is not None
        times = [(row.timestamp + self.ttl_ms, key) for key, row in self.rows.items()]
        return sorted((each for each in times if each[0] <= now), key=lambda each: (each[0], in_order(each[1])))
