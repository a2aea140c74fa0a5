"""Records for processors, and batches of records that hosts give to tasks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from penstock.common.ids import TopicPartition
from penstock.common.time import event_time
from penstock.common.windows import LARGEST_TIMESTAMP

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

Header = tuple[str, bytes | None]
Headers = Sequence[Header]
NO_HEADERS: Headers = ()

SENT_NOW = -1
"""The timestamp of a record that is written without one: it gets the time of its sending."""


@dataclass(frozen=True, slots=True)
class Record(Generic[K, V]):
    """A record that a :class:`~penstock.topology.processor_api.processor.Processor` receives or forwards.

    ``timestamp`` is event time in whole ms since the epoch, never negative. ``key`` and ``value`` may be None.
    Mirrors ``org.apache.kafka.streams.processor.api.Record``.

    Raises TypeError for a timestamp that is not a whole number, such as a float, a bool or a string, and ValueError for
    one that is negative or has more than 63 bits.
    """

    key: K
    value: V
    timestamp: int
    headers: Headers = NO_HEADERS

    def __post_init__(self) -> None:
        timestamp = self.timestamp
        if type(timestamp) is not int or timestamp < 0 or timestamp > LARGEST_TIMESTAMP:
            object.__setattr__(self, "timestamp", event_time(timestamp, "a record's timestamp"))

    def with_key(self, key: K2) -> Record[K2, V]:
        """Returns a copy of the record with another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: V2) -> Record[K, V2]:
        """Returns a copy of the record with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """Returns a copy of the record at another time (ms). Raises TypeError and ValueError as the class itself."""
        return replace(self, timestamp=timestamp)

    def with_headers(self, headers: Headers) -> Record[K, V]:
        """Returns a copy of the record with other headers."""
        return replace(self, headers=headers)


@dataclass(frozen=True, slots=True)
class ProducerRecord(Generic[K, V]):
    """A record for ``topic``, as a handler of exceptions receives and returns it. Mirrors ``ProducerRecord``.

    ``timestamp`` is in whole ms since the epoch; None: the time of sending. ``partition`` None: Kafka's default
    partitioner chooses by the key.
    """

    topic: str
    key: K
    value: V
    timestamp: int | None = None
    headers: Headers = NO_HEADERS
    partition: int | None = None


class RecordMetadata(NamedTuple):
    """The origin of the record that is being processed. Mirrors ``RecordMetadata`` of the Processor API."""

    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class RecordBatch:
    """Consecutive records of one partition, as columns of raw bytes: the only form in which records enter a task.

    ``offsets`` ascend, but need not be dense (compaction, transaction markers). ``headers`` is None when no record of
    the batch has any, so that the task need not check each record. ``size``: the bytes of keys and values, 0 if they
    were not counted.
    """

    partition: TopicPartition
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    offsets: Sequence[int]
    headers: list[Headers | None] | None = field(default=None)
    size: int = 0

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, begin: int, end: int) -> RecordBatch:
        """Returns the records from index ``begin`` up to, but not including, ``end``."""
        headers = None if self.headers is None else self.headers[begin:end]
        return RecordBatch(
            self.partition,
            self.keys[begin:end],
            self.values[begin:end],
            self.timestamps[begin:end],
            self.offsets[begin:end],
            headers,
        )

    def before(self, offset: int) -> RecordBatch:
        """Returns the records whose offsets are less than ``offset``; the batch itself if all are."""
        if not self.keys or self.offsets[-1] < offset:
            return self
        return self.part(0, bisect_left(self.offsets, offset))

    def chosen(self, indexes: Sequence[int]) -> RecordBatch:
        """Returns the records at these indexes, in this order."""
        headers = None if self.headers is None else [self.headers[index] for index in indexes]
        return RecordBatch(
            self.partition,
            [self.keys[index] for index in indexes],
            [self.values[index] for index in indexes],
            [self.timestamps[index] for index in indexes],
            [self.offsets[index] for index in indexes],
            headers,
        )


def joined(batches: Sequence[RecordBatch]) -> RecordBatch:
    """Returns the records of batches of one partition, one batch after the other. There is at least one batch."""
    if len(batches) == 1:
        return batches[0]
    headers = None
    if any(batch.headers is not None for batch in batches):
        headers = [own for batch in batches for own in (batch.headers or [None] * len(batch))]
    return RecordBatch(
        batches[0].partition,
        [key for batch in batches for key in batch.keys],
        [value for batch in batches for value in batch.values],
        [timestamp for batch in batches for timestamp in batch.timestamps],
        [offset for batch in batches for offset in batch.offsets],
        headers,
    )


def check_headers(headers: Headers, topic: str) -> None:
    """Raise TypeError unless they are pairs, whose names are strings, and whose values bytes or None."""
    for header in headers:
        if not isinstance(header, (tuple, list)) or len(header) != 2:
            raise TypeError(
                f"headers for topic {topic!r} must be pairs, as in [('trace', b'7')], not {headers!r} "
                f"({type(headers).__name__})"
            )
        name, value = header
        if not isinstance(name, str):
            raise TypeError(f"the name of a header for topic {topic!r} must be a string, not {name!r}")
        if value is not None and not isinstance(value, bytes):
            raise not_bytes("header", value, topic)


def not_bytes(part: str, given: object, topic: str) -> TypeError:
    """Returns the error for a key, value or header (``part``) that is neither bytes nor None."""
    how = "encode it" if part == "header" else "fix its serializer"
    return TypeError(f"the {part} for topic {topic!r} is of type {type(given).__name__}, and must be bytes: {how}")
