"""Sections: several kinds of rows in one store, distinguished by the first byte of their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from typing_extensions import override

from penstock.state.contracts import CommitBatch, CommittedStore

_AT_ONCE = 4096


class SectionRows(CommittedStore):
    """The rows of ``rows`` whose keys begin with ``front``, by what follows it. ``sections``: number of sections, of
    about the same size, among which the rows are divided; for estimates of their number."""

    def __init__(self, rows: CommittedStore, front: bytes, sections: int = 1) -> None:
        self._rows = rows
        self._sections = sections
        self._front = front
        self._behind = front[:-1] + bytes([front[-1] + 1])

    @override
    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(self._front + key)

    @override
    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        front = self._front
        return self._rows.get_many([front + key for key in keys])

    @override
    def scan(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        first = self._front + (from_key or b"")
        last = self._behind if to_key is None else self._front + to_key  # where no row is
        length = len(self._front)
        return ((key[length:], row) for key, row in self._rows.scan(first, last, reverse))

    @override
    def approximate_num_entries(self) -> int:
        return -(-self._rows.approximate_num_entries() // self._sections)  # rounded up

    @override
    def figures(self) -> Mapping[str, float]:
        return self._rows.figures()


class SectionBatch(CommitBatch):
    """``batch``, with ``front`` before each key."""

    def __init__(self, batch: CommitBatch, front: bytes) -> None:
        self._batch = batch
        self._front = front

    @override
    def put(self, store: str, key: bytes, row: bytes) -> None:
        self._batch.put(store, self._front + key, row)

    @override
    def put_all(self, store: str, rows: dict[bytes, bytes | None]) -> Iterator[None]:
        front, moved = self._front, dict[bytes, bytes | None]()
        waiting = iter(rows.items())
        while step := list(islice(waiting, _AT_ONCE)):
            moved.update([(front + key, row) for key, row in step])
            yield
        yield from self._batch.put_all(store, moved)

    @override
    def delete(self, store: str, key: bytes) -> None:
        self._batch.delete(store, self._front + key)

    @override
    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        self._batch.delete_range(store, self._front + from_key, self._front + to_key)
