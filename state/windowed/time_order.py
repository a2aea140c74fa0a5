"""The windowed keys of a store by time: for windows that are emitted once they close.

The rows of a store lie by key within their segment, so that those of one key are found at once. Those of one time are
all over the segment. A store that must find these has one more row for each windowed key, empty, after all others::

    0xfe, the windowed key's suffix (which begins with its time), the key

They are written with the rows, so they are of the same commit. One may be left without its row, of a window that was
deleted: a reader looks up the row anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from struct import Struct

from penstock.common.serdes import Serdes
from penstock.state.contracts import CommitBatch, StateStoreContext
from penstock.state.rows.row_formats import VALUE
from penstock.state.write_buffer.write_buffer import WriteBuffer

_FRONT = b"\xfe"
"""A byte with which no segment's number begins."""
_pack_time = Struct(">q").pack


class TimeOrder:
    """The windowed keys of the store ``name`` in the order of time, then of the rest of their suffix, then of keys."""

    def __init__(self, name: str, suffix_bytes: int, context: StateStoreContext) -> None:
        self._name = name
        self._key_from = len(_FRONT) + suffix_bytes
        self.buffer = WriteBuffer(name, Serdes.bytes(), VALUE, replace(context, log=None, caching=False))

    def add(self, key: bytes, suffix: bytes) -> None:
        """Note that there is a row for this windowed key."""
        self.buffer.put(_FRONT + suffix + key, b"", 0, None)

    def discard(self, key: bytes, suffix: bytes) -> None:
        """Note that there is no row for this windowed key any more."""
        self.buffer.put(_FRONT + suffix + key, None, 0, None)

    def between(self, time_from: int, time_to: int) -> Iterator[tuple[bytes, bytes]]:
        """Key and suffix of the windowed keys of these times, both included, as they are now."""
        begin, key_from = len(_FRONT), self._key_from
        for row_key, _ in self.buffer.scan(_FRONT + _pack_time(time_from), _FRONT + _pack_time(time_to + 1)):
            yield row_key[key_from:], row_key[begin:key_from]

    def row_key(self, changelog_key: bytes) -> bytes:
        """Returns the key of the empty row for a key of the changelog."""
        key_bytes = len(changelog_key) - (self._key_from - len(_FRONT))
        return _FRONT + changelog_key[key_bytes:] + changelog_key[:key_bytes]

    def delete_before(self, time: int, batch: CommitBatch) -> None:
        """Forget all that is older than ``time``, as of ``batch``."""
        batch.delete_range(self._name, _FRONT + _pack_time(0), _FRONT + _pack_time(time))
