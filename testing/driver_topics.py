"""The topics of a test driver, as a test writes and reads them. Mirror ``TestInputTopic`` and ``TestOutputTopic``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, overload

from penstock.common.errors import SerializationError, StreamsError
from penstock.common.records import NO_HEADERS, Headers, check_headers
from penstock.common.serdes import Serde, why_refused
from penstock.common.shown import shown
from penstock.common.time import Duration, Instant, event_time, to_epoch_ms, to_ms
from penstock.testing.collector import ProducedRecord

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class TestRecord(Generic[K, V]):
    """A record that goes into, or came out of, the driver. ``timestamp`` is in ms; −1 in a changelog whose records are
    written without one."""

    __test__ = False  # not a test class, whatever its name

    key: K
    value: V
    timestamp: int
    headers: Headers = NO_HEADERS


class Pipe(Protocol):
    """Takes one record of a topic: (topic, key, value, timestamp, headers)."""

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers, /) -> None:
        """Returns when the record and all that it causes has happened."""


class _Nothing:
    """Marks a parameter that was not given: None is a value."""


_NOT_GIVEN = _Nothing()


class TestInputTopic(Generic[K, V]):
    """Pipes records into one topic of a driver, each of which is processed and committed before the call returns.

    A record without a timestamp gets the automatic one, which advances by ``auto_advance`` with each of them. Made by
    ``TopologyTestDriver.create_input_topic``. Mirrors ``TestInputTopic``.
    """

    __test__ = False

    def __init__(
        self,
        pipe: Pipe,
        topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        timestamp_ms: int,
        advance_ms: int,
    ) -> None:
        self._pipe = pipe
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._timestamp_ms = timestamp_ms
        self._advance_ms = advance_ms

    @overload
    def pipe_input(self, record: TestRecord[K | None, V | None], /) -> None: ...
    @overload
    def pipe_input(self, value: V | None, /) -> None: ...
    @overload
    def pipe_input(
        self, key: K | None, value: V | None, timestamp_ms: Instant | None = None, headers: Headers = NO_HEADERS
    ) -> None: ...
    def pipe_input(
        self, key: Any, value: Any = _NOT_GIVEN, timestamp_ms: Instant | None = None, headers: Headers = NO_HEADERS
    ) -> None:
        """Pipe one record; everything it causes has happened when this returns.

        Given are key and value, a value alone, whose key is null, or a whole :class:`TestRecord`. ``timestamp_ms`` is
        in ms since the epoch, or a ``datetime`` with a time zone; a record that is given one leaves the automatic one
        as it is. None as key or value is Kafka's null.

        Raises SerializationError for a key or value that its serde does not take, TypeError for headers that are not
        pairs of text and bytes or a time that is not whole ms, and ValueError for a time that is negative or has more
        than 63 bits; then nothing happens. Raises RecordError for a record that cannot be handled, and RuleBrokenError
        when the program breaks a rule; then the driver has ended. Raises StreamsError when it has ended or is closed.
        """
        if value is _NOT_GIVEN:
            if isinstance(key, TestRecord):
                key, value, timestamp_ms, headers = key.key, key.value, key.timestamp, key.headers
            else:
                key, value = None, key
        given = self._timestamp_ms if timestamp_ms is None else timestamp_ms
        timestamp = event_time(to_epoch_ms(given, "timestamp_ms"), f"input topic {self._topic}: timestamp_ms")
        raw_key = None if key is None else self._bytes("key", self._key_serde, key)
        raw_value = None if value is None else self._bytes("value", self._value_serde, value)
        if headers:
            check_headers(headers, self._topic)
        if timestamp_ms is None:
            self._timestamp_ms += self._advance_ms
        self._pipe(self._topic, raw_key, raw_value, timestamp, headers)

    def _bytes(self, part: str, serde: Serde[Any], given: object) -> bytes:
        try:
            return serde.serialize(given)
        except Exception as error:
            why = why_refused(serde, given, error)
            raise SerializationError(f"input topic {self._topic}: {part}: {why}") from error

    def pipe_record(self, record: TestRecord[K | None, V | None]) -> None:
        """Pipe one record, with its timestamp and headers. Raises as :meth:`pipe_input`."""
        self.pipe_input(record.key, record.value, record.timestamp, record.headers)

    def pipe_record_list(self, records: Iterable[TestRecord[K | None, V | None]]) -> None:
        """Pipe records in their order, with their timestamps and headers. Raises as :meth:`pipe_input`."""
        for record in records:
            self.pipe_record(record)

    def pipe_key_value_list(
        self,
        records: Iterable[tuple[K | None, V | None]],
        start_timestamp_ms: Instant | None = None,
        advance: Duration | None = None,
    ) -> None:
        """Pipe records in their order: with automatic timestamps, or from ``start_timestamp_ms`` on, each ``advance``
        (none if it is not given) after the one before, which leaves the automatic one as it is. Raises as
        :meth:`pipe_input`."""
        for (key, value), timestamp in zip(records, _times(start_timestamp_ms, advance), strict=False):
            self.pipe_input(key, value, timestamp)

    def pipe_value_list(
        self,
        values: Iterable[V | None],
        start_timestamp_ms: Instant | None = None,
        advance: Duration | None = None,
    ) -> None:
        """Pipe values under a null key, in their order; timestamps as in :meth:`pipe_key_value_list`."""
        for value, timestamp in zip(values, _times(start_timestamp_ms, advance), strict=False):
            self.pipe_input(None, value, timestamp)

    def advance_time(self, advance: Duration) -> None:
        """Move the automatic timestamp on, by a timedelta or ms. Raises ValueError for a negative one."""
        self._timestamp_ms += to_ms(advance, "advance")


def _times(start: Instant | None, advance: Duration | None) -> Iterator[int | None]:
    """Returns a timestamp for each record of a list."""
    if start is None and advance is not None:
        raise TypeError("advance counts from start_timestamp_ms: give both, or neither")
    step = 0 if advance is None else to_ms(advance, "advance")
    now = None if start is None else to_epoch_ms(start, "start_timestamp_ms")

    def times(now: int | None) -> Iterator[int | None]:
        while True:
            yield now
            now = None if now is None else now + step

    return times(now)


class TestOutputTopic(Generic[K, V]):
    """Reads what the topology wrote to one topic, each record once; several readers of a topic share its records.

    None as key or value is Kafka's null. Reading raises StreamsError when there is nothing (more) to read, and
    SerializationError for bytes that are not of the serde. Made by ``TopologyTestDriver.create_output_topic``. Mirrors
    ``TestOutputTopic``.
    """

    __test__ = False

    def __init__(self, records: deque[ProducedRecord], topic: str, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self._records = records
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde

    def is_empty(self) -> bool:
        """Returns True if everything was read."""
        return not self._records

    def get_queue_size(self) -> int:
        """Returns the number of records that were not read yet."""
        return len(self._records)

    def read_record(self) -> TestRecord[K | None, V | None]:
        """Returns the next record, with timestamp (ms) and headers."""
        return TestRecord(*self._next())

    def read_value(self) -> V | None:
        """Returns the next record's value."""
        return self._next()[1]

    def read_key_value(self) -> tuple[K | None, V | None]:
        """Returns the next record's key and value."""
        return self._next()[:2]

    def _next(self) -> tuple[K | None, V | None, int, Headers]:
        if not self._records:
            raise StreamsError(f"topic {self._topic} is empty: nothing (more) was written to it")
        key, value, timestamp, headers, _ = self._records.popleft()
        return (
            self._object("key", self._key_serde, key),
            self._object("value", self._value_serde, value),
            timestamp,
            headers,
        )

    def _object(self, part: str, serde: Serde[Any], data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return serde.deserialize(data)
        except Exception as error:
            raise SerializationError(
                f"output topic {self._topic}: {part}: serde {serde.name} cannot read {shown(data)}: {error}. Give "
                "create_output_topic the serdes that the topic is written with"
            ) from error

    def _rest(self) -> Iterator[tuple[K | None, V | None, int, Headers]]:
        while self._records:
            yield self._next()

    def read_records_to_list(self) -> list[TestRecord[K | None, V | None]]:
        """Returns all records that were not read yet; none is an empty list."""
        return [TestRecord(*record) for record in self._rest()]

    def read_values_to_list(self) -> list[V | None]:
        """Returns the values of all records that were not read yet."""
        return [record[1] for record in self._rest()]

    def read_key_values_to_list(self) -> list[tuple[K | None, V | None]]:
        """Returns the keys and values of all records that were not read yet."""
        return [record[:2] for record in self._rest()]

    def read_key_values_to_map(self) -> dict[K | None, V | None]:
        """Returns key to value of all records that were not read yet; the last of each key wins, a null value too."""
        return dict(record[:2] for record in self._rest())
