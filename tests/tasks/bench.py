"""A task on a workbench: stores in memory, and a collector that keeps what it is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.common.config import StreamsConfig
from penstock.common.handlers import (
    DeserializationExceptionHandler,
    ErrorHandlerContext,
    ProcessingExceptionHandler,
    Response,
)
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Headers, Record, RecordBatch
from penstock.common.serdes import Serde, Serdes
from penstock.state.contracts import TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.store import KeyValueStateStore
from penstock.state.queries import CountQuery, KeyQuery, QueryRow, RangeQuery
from penstock.state.write_buffer.write_buffer import WriteBuffer
from penstock.tasks.contracts import CallRunner
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.options import Consumed

APPLICATION = "app"
STRINGS: Consumed[str, str] = Consumed.with_(Serdes.string(), Serdes.string())
LONGS: Consumed[str, int] = Consumed.with_(Serdes.string(), Serdes.long())


class Row(NamedTuple):
    """A record to feed: text becomes UTF-8, an int 8 bytes."""

    key: Any
    value: Any
    timestamp: int = 0
    headers: Headers | None = None


class Sent(NamedTuple):
    """A record the task wrote."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers | None
    partition: int


class Collector:
    """Keeps everything that is sent, in order."""

    def __init__(self, partitions: int = 1) -> None:
        self.sent: list[Sent] = []
        self._partitions = partitions

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        self.sent.append(Sent(topic, key, value, timestamp, headers, partition))

    def partitions(self, topic: str) -> int:
        return self._partitions

    def take(self, topic: str | None = None) -> list[Sent]:
        """Returns what was sent since the last call, to ``topic`` or to all; forgets all of it."""
        sent, self.sent = self.sent, []
        return [each for each in sent if topic in (None, each.topic)]


class Caught(NamedTuple):
    """The arguments of a call of an exception handler."""

    context: ErrorHandlerContext
    record: Record[Any, Any] | None
    error: Exception


class Resume(DeserializationExceptionHandler, ProcessingExceptionHandler):
    """An exception handler that drops the records, and keeps what it was asked about."""

    def __init__(self) -> None:
        self.caught: list[Caught] = []

    def handle_error(self, context: ErrorHandlerContext, record: Record[Any, Any] | None, error: Exception) -> Response:
        self.caught.append(Caught(context, record, error))
        return Response.resume()


def raw(value: Any) -> bytes | None:
    """Returns the bytes of a key or value."""
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else int(value).to_bytes(8, "big", signed=True)


def number(data: bytes | None) -> int | None:
    """Returns the long that ``data`` holds."""
    return None if data is None else int.from_bytes(data, "big", signed=True)


class Bench:
    """The whole topology as task 0_0, initialised. Give ``stores`` to start on those that another task has left."""

    def __init__(
        self,
        builder: StreamsBuilder,
        config: Mapping[str, Any] | None = None,
        stores: TaskStores | None = None,
        partitions: int = 1,
        start: bool = True,
        keeps_places: bool = True,
        call_runner: CallRunner | None = None,
    ) -> None:
        checked = StreamsConfig.of({"application.id": APPLICATION, **(config or {})})
        self.program = TaskProgram.of([builder.build(checked).as_one], checked)
        self.collector = Collector(partitions)
        self.stores = stores or open_task_stores(None, self.program.stores.values())
        self.state_manager = StateManager(TaskId(0, 0), self.program, self.stores, self.collector)
        self.state_manager.context.keeps_places = keeps_places
        self.task = Task(self.state_manager, self.collector, call_runner=call_runner)
        self._next = dict.fromkeys(self.program.sources, 0)
        for topic in self._next:
            self.task.set_caught_up(TopicPartition(topic, 0), True)
        if start:
            self.task.init(0)

    def buffer(self, store: str) -> WriteBuffer:
        """Returns the buffer with the changes of a key-value store."""
        opened = self.state_manager.store(store)
        assert isinstance(opened, KeyValueStateStore)
        return opened.buffer

    def look_up(self, store: str, key: bytes, committed: bool) -> QueryRow | None:
        """Returns the row of ``key``, as a query finds it."""
        return next(self.state_manager.store(store).answer(KeyQuery(key), None, 1, committed), None)

    def scan(
        self, store: str, from_key: bytes | None, to_key: bytes | None, limit: int, committed: bool
    ) -> Iterator[QueryRow]:
        """Returns the rows between the keys, as a query finds them."""
        return self.state_manager.store(store).answer(RangeQuery(from_key, to_key), None, limit, committed)

    def count(self, store: str, committed: bool) -> int:
        """Returns the approximate number of rows, as a query finds it."""
        (row,) = self.state_manager.store(store).answer(CountQuery(), None, 1, committed)
        return int(row.value)

    def add(self, topic: str, *rows: Row | tuple[Any, ...], offset: int | None = None) -> None:
        """Adds one batch; offsets continue from the last one."""
        records = [Row(*row) for row in rows]
        first = self._next[topic] if offset is None else offset
        self._next[topic] = first + len(records)
        headers = [row.headers for row in records] if any(row.headers for row in records) else None
        self.task.add(
            RecordBatch(
                TopicPartition(topic, 0),
                [raw(row.key) for row in records],
                [raw(row.value) for row in records],
                [row.timestamp for row in records],
                list(range(first, first + len(records))),
                headers,
            )
        )

    def feed(self, topic: str, *rows: Row | tuple[Any, ...], offset: int | None = None) -> list[Sent]:
        """Adds the rows, processes all, and returns what was sent meanwhile."""
        self.add(topic, *rows, offset=offset)
        self.run()
        return self.collector.take()

    def run(self, wall_ms: int = 0) -> int:
        """Processes what can be processed; returns the number of records."""
        done = 0
        while count := self.task.process(1000, wall_ms):
            done += count
        return done

    def flush(self) -> list[Sent]:
        """Does the first half of a commit; returns what was sent, with what the caches held back."""
        for _ in self.task.prepare_commit():
            pass
        return self.collector.take()

    def commit(self, changelog_offsets: Mapping[str, int] | None = None) -> list[Sent]:
        """Does a whole commit and returns what it sent."""
        sent = self.flush()
        self.task.complete_commit(changelog_offsets or {})
        return sent

    def offset(self, topic: str) -> int:
        """Returns the offset that a commit would name for ``topic``."""
        return self.task.offsets()[TopicPartition(topic, 0)].offset

    @property
    def dropped(self) -> int:
        """``dropped-records-total``."""
        return self.task.metrics().dropped_records_total


def changelog(store: str) -> str:
    """Returns the name of a store's changelog topic."""
    return f"{APPLICATION}-{store}-changelog"


def counting_serde(inner: Serde[Any]) -> tuple[Serde[Any], list[str]]:
    """Returns a serde equal in bytes to ``inner``, and the list of its calls."""
    calls: list[str] = []

    def serialize(value: Any) -> bytes:
        calls.append(f"serialize {value!r}")
        return inner.serialize(value)

    def deserialize(data: bytes) -> Any:
        calls.append(f"deserialize {data!r}")
        return inner.deserialize(data)

    return Serde(inner.name, serialize, deserialize, inner.from_text, inner.lossless), calls


def values(sent: Sequence[Sent]) -> list[str | None]:
    """Returns the values as text."""
    return [None if each.value is None else each.value.decode() for each in sent]
