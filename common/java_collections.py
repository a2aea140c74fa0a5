"""The order in which Java's collections return their elements, for text and results of Kafka Streams that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import mul
from typing import Generic, TypeVar

T = TypeVar("T")


def string_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned number, its upper half mixed into the lower one as ``HashMap`` does."""
    value = 0
    units = text.encode("utf-16-be")
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value ^ value >> 16


def bytes_hash(data: bytes) -> int:
    """``Arrays.hashCode`` of bytes, which Kafka's ``Bytes`` uses, as an unsigned number, mixed like
    :func:`string_hash`."""
    first, *others = _weights(len(data))
    value: int = (first + sum(map(mul, memoryview(data).cast("b"), others))) & 0xFFFFFFFF
    return value ^ value >> 16


@lru_cache(maxsize=256)
def _weights(length: int) -> tuple[int, ...]:
    """Returns the factors of the 1 that the hash begins with, and of each of ``length`` bytes."""
    return tuple(pow(31, power, 1 << 32) for power in range(length, -1, -1))


def slots_for(count: int, slots: int = 16) -> int:
    """Returns the number of slots of a hash table of ``slots`` that has come to hold ``count`` elements: it doubles
    when three quarters full, and never shrinks."""
    while count > slots * 3 // 4:
        slots *= 2
    return slots


def hash_order(texts: Iterable[str]) -> list[str]:
    """``texts`` in the order of a ``HashSet`` (or of a ``HashMap``'s keys) to which they were added in their order.

    Its table has 16 slots at first; elements in one slot keep their order.
    """
    distinct = list(dict.fromkeys(texts))
    last = slots_for(len(distinct)) - 1
    return sorted(distinct, key=lambda text: string_hash(text) & last)


class _Entry(Generic[T]):
    def __init__(self, element: T, parent: _Entry[T] | None) -> None:
        self.element = element
        self.parent = parent
        self.left: _Entry[T] | None = None
        self.right: _Entry[T] | None = None
        self.red = parent is not None


class TreeSet(Generic[T]):
    """A ``TreeSet``, where the order of two elements may change after they were added.

    So a sorted list is not enough: the position of a new element depends on the shape of the tree. ``before(a, b)``
    returns True if ``a`` comes before ``b`` now.
    """

    def __init__(self, before: Callable[[T, T], bool]) -> None:
        self._before = before
        self._root: _Entry[T] | None = None

    def add(self, element: T) -> None:
        """Add an element that the set does not have yet."""
        parent, entry = None, self._root
        to_left = False
        while entry is not None:
            to_left = self._before(element, entry.element)
            parent, entry = entry, entry.left if to_left else entry.right
        added = _Entry(element, parent)
        if parent is None:
            self._root = added
            return
        if to_left:
            parent.left = added
        else:
            parent.right = added
        self._balance(added)

    def __iter__(self) -> Iterator[T]:
        above: list[_Entry[T]] = []
        entry = self._root
        while above or entry is not None:
            while entry is not None:
                above.append(entry)
                entry = entry.left
            entry = above.pop()
            yield entry.element
            entry = entry.right

    def _balance(self, entry: _Entry[T]) -> None:
        """Restore the rules of a red-black tree after ``entry`` was added: no red entry below a red one."""
        while (parent := entry.parent) is not None and parent.red and (grand := parent.parent) is not None:
            on_left = parent is grand.left
            uncle = grand.right if on_left else grand.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grand.red = True
                entry = grand
                continue
            if entry is (parent.right if on_left else parent.left):
                self._rotate(parent, to_left=on_left)
                entry, parent = parent, entry
            parent.red = False
            grand.red = True
            self._rotate(grand, to_left=not on_left)
        if self._root is not None:
            self._root.red = False

    def _rotate(self, entry: _Entry[T], *, to_left: bool) -> None:
        """Let the right child of ``entry`` (``to_left``), or its left child, take its place."""
        child = entry.right if to_left else entry.left
        assert child is not None
        inner = child.left if to_left else child.right
        if to_left:
            entry.right, child.left = inner, entry
        else:
            entry.left, child.right = inner, entry
        if inner is not None:
            inner.parent = entry
        child.parent, entry.parent = entry.parent, child
        if child.parent is None:
            self._root = child
        elif child.parent.left is entry:
            child.parent.left = child
        else:
            child.parent.right = child


class JavaPriorityQueue(Generic[T]):
    """``java.util.PriorityQueue``: a binary heap by ``rank`` (the smallest first), sifted exactly as Java sifts.

    ``heapq`` orders equal elements differently, and Kafka Streams' results show which of them comes first. The rank of
    an element must not change while it is in the queue.
    """

    def __init__(self, rank: Callable[[T], int]) -> None:
        self._rank = rank
        self._heap: list[T] = []

    def __len__(self) -> int:
        return len(self._heap)

    def peek(self) -> T:
        """Returns the first element. The queue must not be empty; the same applies to ``poll``."""
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
        """Remove and return the first element."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            self._sift_down(last)
        return first

    def add_and_poll(self, element: T) -> T:
        """``add`` and ``poll`` in one."""
        heap, rank = self._heap, self._rank
        if len(heap) != 1:
            self.add(element)
            return self.poll()
        first = heap[0]
        if rank(element) < rank(first):
            return element
        heap[0] = element
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
