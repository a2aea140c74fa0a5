"""When the rows that a batch of records may need are worth asking the disk for all at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.state.write_buffer import WriteBuffer


class ReadAhead:
    """Of one source partition: ``buffers`` are those whose keys are the records'."""

    def __init__(self, buffers: Iterable[WriteBuffer]) -> None:
        self._buffers = list(buffers)
        self._misses = [0] * len(self._buffers)
        self._worth = [False] * len(self._buffers)
        self._queued = 0

    def add(self, keys: Sequence[bytes | None], waiting: int) -> None:
        """Records with ``keys`` come, behind ``waiting`` ones that are not processed yet."""
        processed = self._queued - waiting
        self._queued = waiting + len(keys)
        for number, buffer in enumerate(self._buffers):
            if processed > 0:
                # Only where many of the records processed since needed a row from disk. Rows that were prefetched
                # count when they are used: a filter may come before the store.
                self._worth[number] = (buffer.misses - self._misses[number]) * 8 > processed
                self._misses[number] = buffer.misses
            if self._worth[number]:
                buffer.prefetch(keys)
