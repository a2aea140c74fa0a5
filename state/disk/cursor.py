"""A scan of a store in RocksDB, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from penstock.common.errors import StateStoreError
from penstock.state.contracts import scan_after_close

_FIRST_CHUNK, _LARGEST_CHUNK = 16, 512


class RowIterator(Protocol):
    """RocksDB's iterator, as rocksdict has it."""

    def seek_to_first(self) -> None:
        """Go to the first row."""

    def seek_to_last(self) -> None:
        """Go to the last row."""

    def seek(self, key: bytes) -> None:
        """Go to the first row that is not before ``key``."""

    def seek_for_prev(self, key: bytes) -> None:
        """Go to the last row that is not after ``key``."""

    def next(self) -> None:
        """Go to the next row."""

    def prev(self) -> None:
        """Go to the row before."""

    def valid(self) -> bool:
        """Returns True if the iterator is at a row."""

    def key(self) -> bytes:
        """The key of the row at which the iterator is."""

    def value(self) -> bytes:
        """The row at which the iterator is."""

    def status(self) -> None:
        """Raises the error that the iterator has met, if any."""


class Cursor:
    """A scan under way. Reads in chunks, so that closing the store can take the iterator away between two of them."""

    def __init__(
        self,
        what: str,
        iterator: RowIterator,
        from_key: bytes | None,
        to_key: bytes | None,
        reverse: bool,
        translated: Callable[[Exception, str], StateStoreError],
    ) -> None:
        self._what = what
        self._translated = translated
        self._iterator: RowIterator | None = iterator
        self._last = from_key if reverse else to_key
        self._reverse = reverse
        first = to_key if reverse else from_key
        if reverse:
            iterator.seek_to_last() if first is None else iterator.seek_for_prev(first)
        else:
            iterator.seek_to_first() if first is None else iterator.seek(first)

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and rows, in order. Raises StateStoreError if they cannot be read, or the cursor was closed."""
        size = _FIRST_CHUNK
        while chunk := self._chunk(size):
            yield from chunk
            size = min(size * 2, _LARGEST_CHUNK)

    def close(self) -> None:
        """Release RocksDB's iterator, which keeps the database open."""
        self._iterator = None

    def _chunk(self, size: int) -> list[tuple[bytes, bytes]]:
        iterator = self._iterator
        if iterator is None:
            raise scan_after_close(self._what)
        valid, key_of, value_of, last = iterator.valid, iterator.key, iterator.value, self._last
        step = iterator.prev if self._reverse else iterator.next
        chunk: list[tuple[bytes, bytes]] = []
        while len(chunk) < size:
            if not valid():
                self._check(iterator)
                break
            key = key_of()
            if last is not None and (key < last if self._reverse else key > last):
                break
            chunk.append((key, value_of()))
            step()
        return chunk

    def _check(self, iterator: RowIterator) -> None:
        """Raises if the iterator met an error. It is invalid at its end, too; only its status shows the difference."""
        try:
            iterator.status()
        except Exception as error:
            raise self._translated(error, self._what) from error
