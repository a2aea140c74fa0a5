"""How large the entries of a write buffer are: means over samples, since measuring each would cost too much.

The samples are of keys, not of updates: a key that is updated ten thousand times waits once. And they are drawn by lot,
as a fixed step falls in with whatever alternates in the input.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from itertools import cycle
from random import Random
from sys import getsizeof
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

# What Kafka Streams counts for an entry of its cache beside key and value: three references, a flag and the record's
# coordinates (NamedCache.LRUNode and ProcessorRecordContext), with a topic name of 20 characters.
CACHE_ENTRY_OVERHEAD_BYTES = 65

# What an entry takes in the process beside its value: the key's object, the tuple, timestamp and number, and its share
# of a dictionary that is half full (docs/decisions/0012-memory.md has the measurement).
ENTRY_OVERHEAD_BYTES = 270

# One of so many updates, and of so many rows that are decoded, is measured, on average.
SAMPLE_EVERY = 32

# So many samples the mean of the commit before weighs.
_PRIOR_SAMPLES = 8

# An update of so many times the mean size is counted by itself.
_LARGE = 4

_MOST_OBJECTS = 2000
_PLAIN = frozenset((int, float, str, bytes))
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)

# An object that is larger than this, beside its bytes times that, refers to something it does not own, such as a model
# that all values share: decoded JSON takes up to 30 times its text.
_OWNED_BYTES, _OWNED_TIMES = 1024, 64

_STRIDES = tuple(Random(7).choices(range(1, 2 * SAMPLE_EVERY), k=1021))


def strides() -> Callable[[], int]:
    """A function that gives, at each call, after how many the next sample is due: by lot, but the same in each run."""
    return cycle(_STRIDES).__next__


class Size(NamedTuple):
    """What one entry takes, in bytes: as Kafka Streams' cache would count it, and in the process."""

    cached: float
    resident: float


class WaitingSizes:
    """What the updates in ``dirty`` take that wait for the commit: ``dirty`` has (value, …) by key."""

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
        """``key`` was just put, ``new`` if for the first time since the last flush; ``data``: serialised, if it was.

        Raises nothing, whatever the value: one that cannot be serialised is told by the flush.
        """
        if new:
            self._places[key] = len(self._keys)
            self._keys.append(key)
        if new or key in self._sampled:
            self._measure_sampled(key, data)
            return
        self._draws += 1
        if self._keys and self._draws % 2:
            # Values grow while they wait, the same object maybe.
            self._measure_sampled(self._keys[self._draws // 2 % len(self._keys)], None)
            return
        size = self._sizes(key, data)
        if size[1] > _LARGE * self._mean().resident:
            self._large[key] = size
        else:
            self._large.pop(key, None)

    def taken_back(self, key: bytes) -> None:
        """``key`` is not in ``dirty`` any more."""
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
            except Exception:  # told by the flush
                data = None
        length = 0 if data is None else len(data)
        return len(key) + length + CACHE_ENTRY_OVERHEAD_BYTES, entry_bytes(key, value, length)

    def _mean(self) -> Size:
        """Of one entry. Called only while there is one."""
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
        """Of all updates that wait."""
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
        """All that waits is flushed now; the mean of its entries in the process. ``dirty`` is cleared after it."""
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
        """The flush has serialised all ``entries``, keys and values together ``data_bytes``."""
        self._prior = Size(data_bytes / entries + CACHE_ENTRY_OVERHEAD_BYTES, self._prior.resident)


def entry_bytes(key: bytes, value: Any, data_bytes: int) -> int:
    """About what an entry takes in the process whose value is serialised in ``data_bytes``. Raises nothing."""
    return len(key) + min(object_bytes(value), _OWNED_BYTES + _OWNED_TIMES * data_bytes) + ENTRY_OVERHEAD_BYTES


def object_bytes(value: object) -> int:
    """About what ``value`` takes with all that it refers to, types and functions aside; 0 where it does not say."""
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
    # What was not looked at is taken to be as what was, apart from the one that holds so much.
    return total + (total - largest) * len(waiting) // len(seen)
