"""Sizes of the entries of a write buffer: means over samples, since measuring each would cost too much.

The samples are of keys, not of updates: a key that is updated ten thousand times waits once. They are drawn at random,
as a fixed step would coincide with whatever alternates in the input.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from itertools import cycle
from random import Random
from sys import getsizeof
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

# Bytes that Kafka Streams counts for a cache entry in addition to key and value: three references, a flag and the
# record's coordinates (NamedCache.LRUNode and ProcessorRecordContext), with a topic name of 20 characters.
CACHE_ENTRY_OVERHEAD_BYTES = 65

# Bytes of an entry in the process in addition to its value: the key's object, the tuple, timestamp and number, and its
# share of a dictionary that is half full (docs/decisions/0012-memory.md has the measurement).
ENTRY_OVERHEAD_BYTES = 270

# On average one of this many updates, and of this many decoded rows, is measured.
SAMPLE_EVERY = 32

# The mean of the commit before weighs as much as this many samples.
_PRIOR_SAMPLES = 8

# An update of more than this many times the mean size is counted by itself.
_LARGE = 4

_MOST_OBJECTS = 2000
_PLAIN = frozenset((int, float, str, bytes))
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)

# An object that is larger than the first, plus the second times its serialised bytes, refers to something that it does
# not own, such as a model that all values share: decoded JSON takes up to 30 times its text.
_OWNED_BYTES, _OWNED_TIMES = 1024, 64

_STRIDES = tuple(Random(7).choices(range(1, 2 * SAMPLE_EVERY), k=1021))


def strides() -> Callable[[], int]:
    """Returns a function that returns the distance to the next sample: random, but the same in each run."""
    return cycle(_STRIDES).__next__


class Size(NamedTuple):
    """The size of entries, in bytes: as Kafka Streams' cache would count them, and in the process."""

    cached: float
    resident: float


class WaitingSizes:
    """Sizes of the updates in ``dirty``, which wait for the commit: ``dirty`` has (value, …) by key."""

    def __init__(self, dirty: Mapping[bytes, tuple[Any, ...]], serialize: Callable[[Any], bytes]) -> None:
        self._dirty = dirty
        self._serialize = serialize
        self._prior = Size(0, 0)
        self._prior_samples = 0
        self._keys: list[bytes] = []
        self._places: dict[bytes, int] = {}
        self._sampled: dict[bytes, tuple[int, int]] = {}
        self._cached = self._resident = 0
        self._large: dict[bytes, tuple[int, int]] = {}
        self._draws = 0

    def drawn(self, key: bytes, new: bool, data: bytes | None) -> None:
        """Measure the put of ``key``, ``new`` if it is the first since the last flush; ``data``: its bytes, if made.

        Raises nothing, whatever the value: the flush reports one that cannot be serialised.
        """
        if new:
            self._places[key] = len(self._keys)
            self._keys.append(key)
        if new or key in self._sampled:
            self._measure_sampled(key, data)
            return
        self._draws += 1
        if self._keys and self._draws % 2:
            # Values may grow while they wait, as the same object.
            self._measure_sampled(self._keys[self._draws // 2 % len(self._keys)], None)
            return
        size = self._sizes(key, data)
        if size[1] > _LARGE * self._mean().resident:
            self._large[key] = size
        else:
            self._large.pop(key, None)

    def taken_back(self, key: bytes) -> None:
        """Forget ``key``, which is not in ``dirty`` any more."""
        self._large.pop(key, None)
        if key in self._sampled:
            cached, resident = self._sampled.pop(key)
            at, last = self._places.pop(key), self._keys.pop()
            if at < len(self._keys):
                self._keys[at], self._places[last] = last, at
            self._cached -= cached
            self._resident -= resident

    def _measure_sampled(self, key: bytes, data: bytes | None) -> None:
        cached, resident = self._sizes(key, data)
        cached_before, resident_before = self._sampled.get(key, (0, 0))
        self._sampled[key] = cached, resident
        self._cached += cached - cached_before
        self._resident += resident - resident_before

    def _sizes(self, key: bytes, data: bytes | None) -> tuple[int, int]:
        value = self._dirty[key][0]
        if data is None and value is not None:
            try:
                data = self._serialize(value)
            except Exception:  # the flush reports it
                data = None
        length = 0 if data is None else len(data)
        return len(key) + length + CACHE_ENTRY_OVERHEAD_BYTES, entry_bytes(key, value, length)

    def _mean(self) -> Size:
        """Returns the mean size of one entry. Called only while there is one."""
        samples = self._prior_samples + len(self._keys)
        if samples and not self._keys:
            return self._prior
        if not samples:  # some operators write to ``dirty`` themselves
            self.drawn(next(iter(self._dirty)), True, None)
            samples = 1
        prior, weight = self._prior, self._prior_samples
        cached, resident = self._cached + weight * prior.cached, self._resident + weight * prior.resident
        return Size(cached / samples, resident / samples)

    def total(self) -> Size:
        """Returns the size of all updates that wait."""
        if not self._dirty:
            return Size(0, 0)
        mean, entries, large = self._mean(), len(self._dirty), self._large.values()
        if entries == 1 and not large:
            return mean
        return Size(
            entries * mean.cached + sum([cached for cached, _ in large]),
            entries * mean.resident + sum([resident for _, resident in large]),
        )

    def begin_flush(self) -> float:
        """Begin again: all that waits is flushed now, and the caller clears ``dirty`` after this. Returns the mean
        bytes of its entries in the process."""
        total, entries = self.total(), len(self._dirty)
        self._prior = total if entries == 1 else Size(total.cached / entries, total.resident / entries)
        self._prior_samples = min(self._prior_samples + len(self._keys), _PRIOR_SAMPLES)
        self._keys.clear()
        self._places.clear()
        self._sampled.clear()
        self._large.clear()
        self._cached = self._resident = 0
        return self._prior.resident

    def flushed(self, entries: int, data_bytes: int) -> None:
        """Note that the flush has serialised all ``entries``: keys and values take ``data_bytes`` together."""
        self._prior = Size(data_bytes / entries + CACHE_ENTRY_OVERHEAD_BYTES, self._prior.resident)


def entry_bytes(key: bytes, value: Any, data_bytes: int) -> int:
    """Estimates the bytes in the process of an entry whose serialised value has ``data_bytes``. Raises nothing."""
    return len(key) + min(object_bytes(value), _OWNED_BYTES + _OWNED_TIMES * data_bytes) + ENTRY_OVERHEAD_BYTES


def object_bytes(value: object) -> int:
    """Estimates the bytes of ``value`` with all that it refers to, types and functions aside; 0 if it cannot."""
    if value is None:
        return 0
    if type(value) in _PLAIN:
        return getsizeof(value)
    try:
        return _object_bytes(value)
    except Exception:  # a __sizeof__ of its own that raises, a weak reference that is dead
        return 0


def _object_bytes(value: object) -> int:
    total, largest, waiting, seen = 0, 0, [value], {id(None)}
    while waiting and len(seen) <= _MOST_OBJECTS:
        each = waiting.pop()
        if id(each) in seen:
            continue
        plain = type(each) in _PLAIN
        if plain or not isinstance(each, _SHARED):
            seen.add(id(each))
            size = getsizeof(each)
            total += size
            if size > largest:
                largest = size
            if not plain:
                waiting += gc.get_referents(each)
    # Objects that were not looked at are taken to be as large as those that were, without the largest.
    return total + (total - largest) * len(waiting) // len(seen)
