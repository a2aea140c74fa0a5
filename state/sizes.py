"""How large the entries of a write buffer are: means over samples, since measuring each would cost too much."""

from __future__ import annotations

import gc
from sys import getsizeof
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

# What Kafka Streams counts for an entry of its cache beside key and value: three references, a flag and the record's
# coordinates (NamedCache.LRUNode and ProcessorRecordContext), with a topic name of 20 characters.
CACHE_ENTRY_OVERHEAD_BYTES = 65

# What an entry takes in the process beside its value: the key's object, the tuple, timestamp and number, and its share
# of a dictionary that is half full (docs/decisions/0012-memory.md has the measurement).
ENTRY_OVERHEAD_BYTES = 270

# So many samples the mean of the commit before weighs.
_PRIOR_SAMPLES = 8

_MOST_OBJECTS = 2000
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


class EntrySizes:
    """Mean sizes of the entries of one store, in bytes; 0 as long as there was none."""

    def __init__(self) -> None:
        self.cached = 0.0
        """As Kafka Streams' cache would count it: key and value serialised, and its own overhead."""
        self.resident = 0.0
        """As the process takes it."""
        self._cached_samples = 0
        self._resident_samples = 0

    def sample(self, key: bytes, value: object, data: bytes | None) -> None:
        """An update of ``key``, whose ``value`` is serialised as ``data``."""
        self._cached_samples += 1
        size = len(key) + (0 if data is None else len(data)) + CACHE_ENTRY_OVERHEAD_BYTES
        self.cached += (size - self.cached) / self._cached_samples
        self.sample_object(key, value)

    def sample_object(self, key: bytes, value: object) -> None:
        """The same for an entry that was only read."""
        self._resident_samples += 1
        size = len(key) + object_bytes(value) + ENTRY_OVERHEAD_BYTES
        self.resident += (size - self.resident) / self._resident_samples

    def flushed(self, entries: int, data_bytes: int) -> None:
        """A flush has serialised all ``entries``, keys and values together ``data_bytes``: a new mean begins there."""
        self.cached = data_bytes / entries + CACHE_ENTRY_OVERHEAD_BYTES
        self._cached_samples = min(self._cached_samples, _PRIOR_SAMPLES)
        self._resident_samples = min(self._resident_samples, _PRIOR_SAMPLES)


def object_bytes(value: object) -> int:
    """About what ``value`` takes with all that it refers to, types and functions aside."""
    total, largest, waiting, seen = 0, 0, [value], {id(None)}
    while waiting and len(seen) <= _MOST_OBJECTS:
        each = waiting.pop()
        if id(each) not in seen and not isinstance(each, _SHARED):
            seen.add(id(each))
            size = getsizeof(each)
            total += size
            largest = max(largest, size)
            waiting += gc.get_referents(each)
    # What was not looked at is taken to be as what was, apart from the one that holds so much.
    return total + (total - largest) * len(waiting) // len(seen)
