"""Parts of a flush, in steps of 1 to 2 ms: between two of them (a ``yield``) others have their turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from penstock.state.contracts import CommitBatch

T = TypeVar("T")

_SORTED_AT_ONCE = 4096
_PUT_AT_ONCE = 2048


def sort_in_steps(items: list[T], key: Callable[[T], Any]) -> Iterator[None]:
    """Sort ``items`` in place, as ``list.sort`` does; between two steps they are in no order."""
    if len(items) > _SORTED_AT_ONCE:
        for begin in range(0, len(items), _SORTED_AT_ONCE):
            run = items[begin : begin + _SORTED_AT_ONCE]
            run.sort(key=key)
            items[begin : begin + _SORTED_AT_ONCE] = run
            yield
    items.sort(key=key)  # which merges the runs
    yield


def put_in_order(rows: dict[bytes, bytes | None], batch: CommitBatch, store: str) -> Iterator[None]:
    """Put ``rows`` to ``batch``, None is a deletion: by key, for so RocksDB writes them in a third of the time."""
    keys = list(rows)
    yield from sort_in_steps(keys, bytes)
    for begin in range(0, len(keys), _PUT_AT_ONCE):
        _put(rows, keys[begin : begin + _PUT_AT_ONCE], batch, store)
        yield


def _put(rows: dict[bytes, bytes | None], keys: list[bytes], batch: CommitBatch, store: str) -> None:
    # Not part of the generator: if that is abandoned, its variables would keep the database open.
    put, delete = batch.putter(store), batch.delete
    for key in keys:
        row = rows[key]
        if row is None:
            delete(store, key)
        else:
            put(key, row)
