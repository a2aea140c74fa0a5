"""The records of one partition that wait to be processed, decoded, with their event times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from penstock.common.errors import DeserializationError, InvalidTimestampError, RecordError
from penstock.common.extractors import FailOnInvalidTimestamp, TimestampExtractor
from penstock.common.handlers import ExceptionHandler, HandlerResponse, response_of
from penstock.common.ids import TopicPartition
from penstock.common.records import NO_HEADERS, Headers, Record, RecordBatch, RecordMetadata
from penstock.common.time import event_time, whole_ms
from penstock.tasks.context import TaskContext
from penstock.tasks.wiring import StreamEdge

NO_LIMIT = 1 << 63
"""The timestamp below which a queue's records precede others, if there are no others."""
Decode = Callable[[bytes], Any]
Check = Callable[[Iterable[bytes]], object]


@dataclass(frozen=True)
class Part:
    """The entry for the keys, or the values, of a topic: decoded, or, if ``decode`` is None, as the bytes they are.

    ``check`` raises unless all bytes that it is given could be decoded; it is None where that cannot fail.
    """

    decode: Decode | None
    check: Check | None = None

    def column(self, data: list[bytes | None]) -> list[Any]:
        """Returns the column as it enters. Raises what the serde raises, without the place of the record."""
        if self.decode is not None:
            decode = self.decode
            return [None if each is None else decode(each) for each in data]
        if self.check is not None:
            # Bytes that a task does not look at get into its stores and results all the same, and others look at them.
            try:
                self.check(cast("list[bytes]", data))
            except TypeError:  # a null among them
                self.check([each for each in data if each is not None])
        return data

    def one(self, data: bytes | None) -> Any:
        """Returns one key, or value, as it enters. Raises what the serde raises."""
        if data is None:
            return None
        if self.decode is not None:
            return self.decode(data)
        if self.check is not None:
            self.check([data])
        return data


@dataclass(frozen=True)
class Source:
    """The way of a topic's records into the topology: keys, values, extractor, the first closure. ``node`` is the name
    of the source."""

    topic: str
    key: Part
    value: Part
    extractor: TimestampExtractor
    head: StreamEdge
    node: str


@dataclass(slots=True)
class Decoded:
    """A batch whose columns are ready for the closures.

    ``error`` is that of a bad record after the last one, if there is one. ``last_offset`` is that of the last record
    that is done once the columns are: dropped ones after them count.
    """

    keys: list[Any]
    values: list[Any]
    timestamps: list[int]
    offsets: Sequence[int]
    headers: list[Headers | None] | None
    last_offset: int
    error: RecordError | None = None


class RecordQueue:
    """Batches of one partition, in offset order. Mirrors ``RecordQueue``.

    Records are decoded a column at a time when they arrive. If the handler does not drop a bad one, those before it are
    processed first, and its error is raised when its turn comes.
    """

    def __init__(
        self, partition: TopicPartition, source: Source, handler: ExceptionHandler, context: TaskContext
    ) -> None:
        self.partition = partition
        self.source = source
        self.partition_time = -1
        self.index = 0
        self.processed_offset = -1
        self._handler = handler
        self._context = context
        self._batches: deque[Decoded] = deque()
        self._in_batches = 0
        self._failed = False

    def __len__(self) -> int:
        return self._in_batches - self.index

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def batch(self) -> Decoded:
        """The first batch; ``index`` counts its records that are done."""
        return self._batches[0]

    @property
    def head_timestamp(self) -> int:
        """Event time of the next record. A bad record is due at once."""
        batch = self._batches[0]
        return batch.timestamps[self.index] if self.index < len(batch.keys) else -1

    def run_end(self, limit: int, most: int) -> int:
        """Returns the end of the run that begins with the next record, of at most ``most`` records: it ends before one
        that is not older than ``limit``, which comes after another queue's head."""
        batch, begin = self._batches[0], self.index
        end = min(begin + most, len(batch.keys))
        if limit == NO_LIMIT:
            return end
        timestamps = batch.timestamps
        for index in range(begin + 1, end):
            if timestamps[index] >= limit:
                return index
        return end

    def add(self, batch: RecordBatch) -> None:
        """Decode and queue. After a bad record nothing more is taken in."""
        if self._failed or not batch.keys:
            return
        decoded = self._columns(batch) or self._one_by_one(batch)
        self._failed = decoded.error is not None
        if decoded.keys or decoded.error:
            self._batches.append(decoded)
            self._in_batches += len(decoded.keys)
        elif self._batches:
            self._batches[-1].last_offset = decoded.last_offset
        else:
            self.processed_offset = decoded.last_offset

    def advance(self, end: int) -> None:
        """Count the first batch's records up to index ``end`` as done. Raises the error of a bad one after them."""
        batch = self._batches[0]
        if end > self.index:
            self.processed_offset = batch.offsets[end - 1]
            newest = batch.timestamps[self.index]
            if end > self.index + 1:
                newest = max(batch.timestamps[self.index : end])
            if newest > self.partition_time:
                self.partition_time = newest
        self.index = end
        if end == len(batch.keys):
            if batch.error is not None:
                raise batch.error
            self.processed_offset = batch.last_offset
            self._batches.popleft()
            self._in_batches -= end
            self.index = 0

    def decode_alone(self, key: bytes | None, value: bytes | None, timestamp: int) -> tuple[Any, Any] | None:
        """Returns key and value of a record that is not queued; None if :meth:`add` must look at it: it may be bad."""
        source = self.source
        if self._failed or timestamp < 0 or type(source.extractor) is not FailOnInvalidTimestamp:
            return None
        try:
            return source.key.one(key), source.value.one(value)
        except Exception:  # as in _columns
            return None

    def skip(self, offset: int, timestamp: int) -> None:
        """Count a record that was not queued as done."""
        self.processed_offset = offset
        if timestamp > self.partition_time:
            self.partition_time = timestamp

    def _columns(self, batch: RecordBatch) -> Decoded | None:
        source = self.source
        if type(source.extractor) is not FailOnInvalidTimestamp or min(batch.timestamps) < 0:
            return None
        try:
            keys, values = source.key.column(batch.keys), source.value.column(batch.values)
        except Exception:
            return None  # which record it was, and what is to be done about it, is found one by one
        return Decoded(keys, values, batch.timestamps, batch.offsets, batch.headers, batch.offsets[-1])

    def _one_by_one(self, batch: RecordBatch) -> Decoded:
        offsets: list[int] = []
        result = Decoded([], [], [], offsets, None if batch.headers is None else [], batch.offsets[-1])
        # An extractor gets the time of every record before its own, those that still wait included.
        time = max([self.partition_time, *(max(waiting.timestamps) for waiting in self._batches)])
        for index in range(len(batch)):
            try:
                key, value, timestamp = self._decode_one(batch, index, time)
            except RecordError as error:
                if isinstance(error, DeserializationError) and (
                    response_of(self._handler, error) is HandlerResponse.RESUME
                ):
                    self._context.handler_dropped()
                    continue
                result.error = error
                return result
            if timestamp < 0:
                self._context.dropped_records += 1
                continue
            time = max(time, timestamp)
            result.keys.append(key)
            result.values.append(value)
            result.timestamps.append(timestamp)
            offsets.append(batch.offsets[index])
            if batch.headers is not None and result.headers is not None:
                result.headers.append(batch.headers[index])
        return result

    def _decode_one(self, batch: RecordBatch, index: int, partition_time: int) -> tuple[Any, Any, int]:
        at = RecordMetadata(*batch.partition, batch.offsets[index])
        source = self.source
        key = self._decode_part("key", batch.keys[index], source.key, at, batch.keys[index])
        value = self._decode_part("value", batch.values[index], source.value, at, batch.keys[index])
        own = batch.timestamps[index]
        headers = (batch.headers[index] if batch.headers is not None else None) or NO_HEADERS
        try:
            extracted = source.extractor(Record(key, value, max(own, 0), headers), own, partition_time, at)
            timestamp = whole_ms(extracted, "its result")
            if timestamp > 0:  # a negative one drops the record
                timestamp = event_time(timestamp, "its result")
        except InvalidTimestampError:
            raise
        except Exception as error:
            raise InvalidTimestampError(
                f"the timestamp extractor failed: {type(error).__name__}: {error}",
                operator=source.node,
                topic=at.topic,
                partition=at.partition,
                offset=at.offset,
                key=key,
            ) from error
        return key, value, timestamp

    @staticmethod
    def _decode_part(name: str, data: bytes | None, part: Part, at: RecordMetadata, key: bytes | None) -> Any:
        try:
            return part.one(data)
        except Exception as error:
            raise DeserializationError(
                f"the {name} cannot be decoded: {type(error).__name__}: {error}. Fix the serde or the data, or set "
                "deserialization.exception.handler to LogAndContinue() to drop such records",
                topic=at.topic,
                partition=at.partition,
                offset=at.offset,
                key=key,
            ) from error
