"""An index of keys by time, which finds the keys of a store that may have expired without a look at the others.

For each row the store has a second one, without a value, under the time of the update and the key. It is not moved when
the key is updated again: the reader that finds it looks up the row and, if that was updated since, notes the key at the
row's time. So an update of a key that is there costs nothing, and a key is looked at once per TTL at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice
from struct import Struct

from penstock.common.serdes import Serdes
from penstock.state.contracts import StateStoreContext
from penstock.state.rows.row_formats import NO_TIMESTAMP, VALUE
from penstock.state.write_buffer.write_buffer import WriteBuffer

_TIME = Struct(">q")
_NEVER = 1 << 63
# Number of keys that are read at once, of those that may expire next.
_READ_AHEAD = 1000


class ExpiryIndex:
    """Times and keys, in the order of time, of one store."""

    def __init__(self, name: str, context: StateStoreContext) -> None:
        self.buffer = WriteBuffer(name, Serdes.bytes(), VALUE, replace(context, log=None, caching=False))
        self.forget_order()

    def forget_order(self) -> None:
        """Forget the order in memory: rows were changed without this index."""
        # ``_next`` is a heap of the keys of all rows up to ``_horizon``; None: of all rows.
        self._next: list[bytes] = []
        self._horizon: bytes | None = b""
        self.first_ms = -1
        """No key is noted at an earlier time."""

    @staticmethod
    def row_key(time: int, key: bytes) -> bytes:
        """Returns the key of the row that notes ``key`` at ``time``; a time before 1970 counts as 0."""
        return _TIME.pack(max(time, 0)) + key

    def add(self, time: int, key: bytes) -> None:
        """Note ``key`` at ``time``."""
        row_key = self.row_key(time, key)
        self.buffer.put(row_key, b"", NO_TIMESTAMP, None)
        if time < self.first_ms:
            self.first_ms = time
        if self._horizon is None or row_key <= self._horizon:
            heappush(self._next, row_key)
            if len(self._next) > 2 * _READ_AHEAD:
                self._next.sort()  # which makes a heap, too
                del self._next[_READ_AHEAD:]
                self._horizon = self._next[-1]

    def take_out(self, latest: int) -> Iterator[tuple[int, bytes]]:
        """Take out the keys noted up to ``latest``, and those added meanwhile. Yields (time, key), in this order."""
        while self._next or self._read_ahead():
            row_key = self._next[0]
            time: int = _TIME.unpack_from(row_key)[0]
            if time > latest:
                self.first_ms = time
                return
            heappop(self._next)
            self.buffer.put(row_key, None, NO_TIMESTAMP, None)
            yield time, row_key[_TIME.size :]
        self.first_ms = _NEVER

    def _read_ahead(self) -> bool:
        if self._horizon is None:
            return False
        rows = self.buffer.scan(self._horizon + b"\0", None, limit=_READ_AHEAD)
        self._next = [key for key, _ in islice(rows, _READ_AHEAD)]
        self._horizon = self._next[-1] if len(self._next) == _READ_AHEAD else None
        return bool(self._next)
