"""The records of one partition that wait to be processed, decoded, with their event times."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from penstock.common.errors import InvalidTimestampError, RetriableError
from penstock.common.extractors import FailOnInvalidTimestamp, TimestampExtractor
from penstock.common.ids import TopicPartition
from penstock.common.records import NO_HEADERS, Headers, Record, RecordBatch, RecordMetadata
from penstock.common.time import event_time, whole_ms
from penstock.tasks.context import TaskContext
from penstock.tasks.record_places import PlacedHeaders
from penstock.tasks.wiring import StreamEdge

NO_LIMIT = 1 << 63
"""The timestamp below which a queue's records precede others, if there are no others."""
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 50, 1000
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


@dataclass(eq=False)
class Source:
    """The way of a topic's records into the topology: keys, values, extractor, the first closure. ``node`` is the name
    of the source. A measured run replaces ``head``, and puts it back."""

    topic: str
    key: Part
    value: Part
    extractor: TimestampExtractor
    head: StreamEdge
    node: str


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be processed: ``index`` is its place in ``batch``. ``part`` is the part that cannot be
    decoded, key or value; if it is None, no handler decides, and ``error`` is raised in the record's turn."""

    batch: RecordBatch
    index: int
    error: Exception
    part: str | None


@dataclass(slots=True)
class Decoded:
    """A batch whose columns are ready for the closures.

    ``bad`` is a bad record after the last one, if there is one. ``last_offset`` is that of the last record that is done
    once the columns and the bad one are: dropped ones after them count. ``raw``: the records as they were read, if a
    handler of exceptions may ask for them.
    """

    keys: list[Any]
    values: list[Any]
    timestamps: list[int]
    offsets: Sequence[int]
    headers: list[Headers | None] | None
    last_offset: int
    bad: BadRecord | None = None
    raw: RecordBatch | None = None


class RecordQueue:
    """Batches of one partition, in offset order. Mirrors ``RecordQueue``.

    Records are decoded a column at a time when they arrive. A bad one keeps its position: the handler is asked about it
    when its turn comes, so that the offset and a dead letter belong to the same commit.

    If a serde raises RetriableError, its record and those after it wait undecoded: ``waits_for`` is the error, until
    :meth:`ask_again` has decoded them.
    """

    def __init__(self, partition: TopicPartition, source: Source, context: TaskContext, keeps_raw: bool) -> None:
        self.partition = partition
        self.source = source
        self.partition_time = -1
        self.index = 0
        self.processed_offset = -1
        self.waits_for: RetriableError | None = None
        self._undecoded: deque[RecordBatch] = deque()
        self._in_undecoded = 0
        self._asked_ms, self._pause_ms = -1, _FIRST_PAUSE_MS
        self._context = context
        self._keeps_raw = keeps_raw
        self._batches: deque[Decoded] = deque()
        self._in_batches = 0
        self._alone: tuple[int, bytes | None, bytes | None] = (-1, None, None)

    def __len__(self) -> int:
        return self._in_batches - self.index + self._in_undecoded

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
        """Decode and queue."""
        if not batch.keys:
            return
        if self.waits_for is not None:
            self._undecoded.append(batch)
            self._in_undecoded += len(batch)
            return
        decoded = self._columns(batch)
        for part in [decoded] if decoded is not None else self._one_by_one(batch):
            if part.keys or part.bad is not None:
                self._batches.append(part)
                self._in_batches += len(part.keys)
            elif self._batches:
                self._batches[-1].last_offset = part.last_offset
            else:
                self.processed_offset = part.last_offset

    @property
    def waiting_offset(self) -> int:
        """Offset of the record that waits for its serde."""
        return self._undecoded[0].offsets[0]

    def is_due(self, wall_ms: int) -> bool:
        """Returns True if the serde may be asked again: after 50 ms at first, then after twice as long each time, up to
        a second."""
        if self._asked_ms < 0 or wall_ms < self._asked_ms:
            self._asked_ms = wall_ms
        return wall_ms - self._asked_ms >= self._pause_ms

    def ask_again(self, wall_ms: int) -> None:
        """Decode the records that wait for their serde, if it can do so now."""
        first = self.waiting_offset
        undecoded, self._undecoded = self._undecoded, deque()
        self._in_undecoded, self.waits_for = 0, None
        for batch in undecoded:
            self.add(batch)
        if self.waits_for is not None and self.waiting_offset == first:
            self._asked_ms, self._pause_ms = wall_ms, min(2 * self._pause_ms, _LONGEST_PAUSE_MS)
        else:
            self._asked_ms, self._pause_ms = -1, _FIRST_PAUSE_MS

    def advance(self, end: int) -> None:
        """Count the first batch's records up to index ``end`` as done. If a bad one follows, it is its turn: raises its
        error unless a handler drops it."""
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
            if batch.bad is not None:
                self._decide(batch.bad)
            self.processed_offset = batch.last_offset
            self._batches.popleft()
            self._in_batches -= end
            self.index = 0

    def _decide(self, bad: BadRecord) -> None:
        if bad.part is None:
            raise bad.error
        batch, index = bad.batch, bad.index
        headers = (batch.headers[index] if batch.headers is not None else None) or NO_HEADERS
        timestamp = batch.timestamps[index]
        record = Record(batch.keys[index], batch.values[index], max(timestamp, 0), headers)
        self._context.failures.undecodable(
            bad.error, bad.part, self.source.node, self.partition, batch.offsets[index], record
        )

    def raw(self, offset: int) -> tuple[bytes | None, bytes | None]:
        """Returns key and value, as they were read, of a record that is not done yet: of the first batch, or processed
        past the queue. Nothing else is kept."""
        if self._alone[0] == offset:
            return self._alone[1:]
        raw = self._batches[0].raw if self._batches else None
        if raw is None:
            return None, None
        index = bisect_left(raw.offsets, offset)
        found = index < len(raw.offsets) and raw.offsets[index] == offset
        return (raw.keys[index], raw.values[index]) if found else (None, None)

    def placed(self, begin: int, end: int, headers: Sequence[Headers | None]) -> list[PlacedHeaders]:
        """Returns ``headers``, of the first batch's records from index ``begin`` to ``end``, with their places."""
        batch, partition = self._batches[0], self.partition
        offsets, read = batch.offsets[begin:end], batch.raw
        if read is None:
            return [PlacedHeaders(partition, *each) for each in zip(offsets, headers, strict=True)]
        if len(read.keys) == len(batch.keys):
            raw: Iterable[tuple[bytes | None, bytes | None]]
            raw = zip(read.keys[begin:end], read.values[begin:end], strict=True)
        else:  # without bad records, or records without a time
            raw = map(self.raw, offsets)
        return [PlacedHeaders(partition, *each) for each in zip(offsets, headers, raw, strict=True)]

    def decode_alone(
        self, key: bytes | None, value: bytes | None, timestamp: int, offset: int
    ) -> tuple[Any, Any] | None:
        """Returns key and value of a record that is not queued; None if :meth:`add` must look at it: it may be bad."""
        source = self.source
        if timestamp < 0 or type(source.extractor) is not FailOnInvalidTimestamp:
            return None
        if self._keeps_raw:
            self._alone = offset, key, value
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
            return None  # the record, and the reaction to it, are found one by one
        raw = batch if self._keeps_raw else None
        return Decoded(keys, values, batch.timestamps, batch.offsets, batch.headers, batch.offsets[-1], None, raw)

    def _one_by_one(self, batch: RecordBatch) -> Iterator[Decoded]:
        """Yields the records up to and with each bad one, and those after the last. If a serde cannot answer now, the
        remaining records wait."""
        part = self._part(batch)
        # An extractor gets the time of every record before its own, those that still wait included.
        waiting = [max(each.timestamps) for each in self._batches if each.timestamps]
        time = max([self.partition_time, *waiting])
        for index in range(len(batch)):
            try:
                found = self._decode_one(batch, index, time)
            except RetriableError as error:
                self.waits_for = error
                self._undecoded.append(batch.part(index, len(batch)))
                self._in_undecoded += len(batch) - index
                if index and part.last_offset != batch.offsets[index - 1]:
                    part.last_offset = batch.offsets[index - 1]
                    yield part
                return
            if isinstance(found, BadRecord):
                part.bad, part.last_offset = found, batch.offsets[index]
                yield part
                part = self._part(batch)
                continue
            key, value, timestamp = found
            if timestamp < 0:
                self._context.dropped_records += 1
                continue
            time = max(time, timestamp)
            part.keys.append(key)
            part.values.append(value)
            part.timestamps.append(timestamp)
            cast("list[int]", part.offsets).append(batch.offsets[index])
            if part.headers is not None and batch.headers is not None:
                part.headers.append(batch.headers[index])
        yield part

    def _part(self, batch: RecordBatch) -> Decoded:
        headers: list[Headers | None] | None = None if batch.headers is None else []
        return Decoded([], [], [], [], headers, batch.offsets[-1], None, batch if self._keeps_raw else None)

    def _decode_one(self, batch: RecordBatch, index: int, partition_time: int) -> tuple[Any, Any, int] | BadRecord:
        part = "key"
        try:
            key = self.source.key.one(batch.keys[index])
            part = "value"
            value = self.source.value.one(batch.values[index])
        except RetriableError:
            raise
        except Exception as error:  # a serde may raise anything
            return BadRecord(batch, index, error, part)
        try:
            return key, value, self._event_time(batch, index, key, value, partition_time)
        except InvalidTimestampError as error:
            return BadRecord(batch, index, error, None)

    def _event_time(self, batch: RecordBatch, index: int, key: Any, value: Any, partition_time: int) -> int:
        at, own = RecordMetadata(*batch.partition, batch.offsets[index]), batch.timestamps[index]
        headers = (batch.headers[index] if batch.headers is not None else None) or NO_HEADERS
        try:
            extracted = self.source.extractor(Record(key, value, max(own, 0), headers), own, partition_time, at)
            timestamp = whole_ms(extracted, "its result")
            # A negative one drops the record.
            return event_time(timestamp, "its result") if timestamp > 0 else timestamp
        except (InvalidTimestampError, RetriableError):
            raise
        except Exception as error:
            raise InvalidTimestampError(
                f"the timestamp extractor failed: {type(error).__name__}: {error}",
                operator=self.source.node,
                topic=at.topic,
                partition=at.partition,
                offset=at.offset,
                key=key,
            ) from error
