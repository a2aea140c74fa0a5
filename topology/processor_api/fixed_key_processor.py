"""Processors that cannot change keys: what ``KStream.process_values`` takes (KIP-820)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import override

from penstock.common.records import NO_HEADERS, Headers
from penstock.common.time import event_time
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.topology.processor_api.processor import ProcessingContext, checked_supplier_of

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")
KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
VOut = TypeVar("VOut")


@dataclass(frozen=True, slots=True, init=False)
class FixedKeyRecord(Generic[K, V]):
    """A record whose key cannot be changed: a :class:`FixedKeyProcessor` receives one and forwards records derived from
    it. ``timestamp`` is event time in ms. Only penstock makes one, so each record that is forwarded has a key that was
    received. Mirrors ``FixedKeyRecord``.
    """

    key: K
    value: V
    timestamp: int
    headers: Headers

    def __init__(self) -> None:
        """Raises TypeError: derive a record from one that was received."""
        raise TypeError(
            "a FixedKeyRecord cannot be made: derive it from the one that process() was given (with_value, "
            "with_timestamp, with_headers). To change the key, use process() and a Record"
        )

    def with_value(self, value: V2) -> FixedKeyRecord[K, V2]:
        """Returns a copy of the record with another value."""
        return fixed_key_record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> FixedKeyRecord[K, V]:
        """Returns a copy of the record at another time (ms).

        Raises TypeError for a time that is not a whole number, and ValueError for one that is negative or has more
        than 63 bits.
        """
        return fixed_key_record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> FixedKeyRecord[K, V]:
        """Returns a copy of the record with other headers."""
        return fixed_key_record(self.key, self.value, self.timestamp, headers)


_new, _set = object.__new__, object.__setattr__


def fixed_key_record(key: K, value: V, timestamp: int, headers: Headers = NO_HEADERS) -> FixedKeyRecord[K, V]:
    """Returns a record for a task to hand out. Raises TypeError or ValueError for a timestamp that is not allowed."""
    if type(timestamp) is not int or timestamp < 0 or timestamp > LARGEST_TIMESTAMP:
        timestamp = event_time(timestamp, "a record's timestamp")
    made: FixedKeyRecord[K, V] = _new(FixedKeyRecord)
    _set(made, "key", key)
    _set(made, "value", value)
    _set(made, "timestamp", timestamp)
    _set(made, "headers", headers)
    return made


class FixedKeyProcessorContext(ProcessingContext, Protocol[KIn, VOut]):
    """The view that a :class:`FixedKeyProcessor` has of its task. Mirrors ``FixedKeyProcessorContext``."""

    def forward(self, record: FixedKeyRecord[KIn, VOut], child: str | None = None) -> None:
        """Pass ``record`` to every child in order, or to the one named ``child``; returns when they are done with it.

        Raises TopologyError if there is no such child, and TypeError for a :class:`Record`, which could have another
        key.
        """


class FixedKeyProcessor(Generic[KIn, VIn, VOut]):
    """One instance per task, as a :class:`Processor`. The records that it forwards have keys that it received, so it
    causes no repartitioning. Mirrors ``FixedKeyProcessor``.
    """

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Called once, after the task's stores are restored and before the first record."""

    def process(self, record: FixedKeyRecord[KIn, VIn]) -> None:
        """Called for each record, null keys and values included. May forward any number of records."""
        raise NotImplementedError(f"{type(self).__name__} must define process()")

    def close(self) -> None:
        """Called once when the task is closed; not promised after a crash. Do not close stores."""


class ContextualFixedKeyProcessor(FixedKeyProcessor[KIn, VIn, VOut]):
    """A :class:`FixedKeyProcessor` that keeps its context, as ``self.context``. Mirrors
    ``ContextualFixedKeyProcessor``.

    A subclass with an ``init`` of its own calls ``super().init(context)`` in it.
    """

    context: FixedKeyProcessorContext[KIn, VOut]
    """The context, from ``init`` on."""

    @override
    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        self.context = context


FixedKeyProcessorSupplier = Callable[[], FixedKeyProcessor[KIn, VIn, VOut]]
"""Makes a new processor at each call: an instance that is returned twice is an error."""


def checked_fixed_key_supplier(supplier: FixedKeyProcessorSupplier[Any, Any, Any], call: str) -> None:
    """Raises TopologyError unless ``supplier``, given to ``call``, makes a new fixed-key processor each time."""
    checked_supplier_of(FixedKeyProcessor, supplier, call)
