"""Parts of a flush, in steps of 1 to 2 ms: between two of them (a ``yield``) other work has its turn."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_SORTED_AT_ONCE = 4096
_PUT_AT_ONCE = 2048


def sort_in_steps(items: list[Any], key: Callable[[Any], Any] | None = None) -> Iterator[None]:
    """Sort ``items`` in place, as ``list.sort`` does; between two steps they are in no order."""
    if len(items) > _SORTED_AT_ONCE:
        for begin in range(0, len(items), _SORTED_AT_ONCE):
            run = items[begin : begin + _SORTED_AT_ONCE]
            run.sort(key=key)
            items[begin : begin + _SORTED_AT_ONCE] = run
            yield
    items.sort(key=key)  # which merges the runs
    yield


def sorted_by(numbers: list[int], items: list[T]) -> Generator[None, None, list[T]]:
    """Returns ``items`` in the order of their ``numbers``. It sorts indices, whose numbers are found without a function
    of ours: that takes half the time."""
    places = list(range(len(items)))
    yield from sort_in_steps(places, numbers.__getitem__)
    return [items[place] for place in places]


def put_in_order(keys: list[bytes], put: Callable[[list[bytes]], None]) -> Iterator[None]:
    """Have ``put`` put the rows of ``keys``, some at a time: by key, as RocksDB writes them three times as fast."""
    yield from sort_in_steps(keys)
    for begin in range(0, len(keys), _PUT_AT_ONCE):
        put(keys[begin : begin + _PUT_AT_ONCE])
        yield
