"""Walks over graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def reachable(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yields the nodes of ``start`` and all that can be reached from them, each once.

    Nodes are compared by identity, as the nodes of a topology may not be hashable.
    """
    seen: set[int] = set()
    waiting = list(start)
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += following(node)
