"""``java.util.PriorityQueue``: which of several equal elements comes first is what Kafka Streams' results show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaPriorityQueue(Generic[T]):
    """A binary heap by ``rank`` (the smallest first), sifted exactly as Java sifts.

    ``heapq`` orders equal elements differently. The rank of an element must not change while it is in the queue.
    """

    def __init__(self, rank: Callable[[T], int]) -> None:
        self._rank = rank
        self._heap: list[T] = []

    def __len__(self) -> int:
        return len(self._heap)

    def peek(self) -> T:
        """The first element. The queue must not be empty; so for ``poll``."""
        return self._heap[0]

    def add(self, element: T) -> None:
        """Add an element."""
        heap, rank = self._heap, self._rank
        heap.append(element)
        child, own = len(heap) - 1, rank(element)
        while child > 0:
            parent = (child - 1) >> 1
            if own >= rank(heap[parent]):
                break
            heap[child] = heap[parent]
            child = parent
        heap[child] = element

    def poll(self) -> T:
        """Take the first element out."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            self._sift_down(last)
        return first

    def _sift_down(self, element: T) -> None:
        heap, rank, own, at = self._heap, self._rank, self._rank(element), 0
        size = len(heap)
        while (child := 2 * at + 1) < size:
            right = child + 1
            if right < size and rank(heap[child]) > rank(heap[right]):
                child = right
            if own <= rank(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = element
