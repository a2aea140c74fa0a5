"""Run a topology record by record, without a broker. Mirrors ``org.apache.kafka.streams.TopologyTestDriver``."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from penstock.common.config import StreamsConfig
from penstock.common.errors import (
    RecordError,
    RuleBrokenError,
    SerializationError,
    StreamsError,
    UnknownStateStoreError,
)
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import NO_HEADERS, Headers, RecordBatch
from penstock.common.serdes import Serde, bound, why_refused
from penstock.common.time import Duration, to_ms
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.typed_store import TypedKeyValueStore
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task, TaskMetrics
from penstock.testing.global_stores import DrivenGlobalStores
from penstock.testing.watch import watched_functions
from penstock.testing.watched_rows import WatchedTaskStores
from penstock.testing.watched_serdes import watched_serdes
from penstock.topology.physical.explicit_names import check_explicit_names
from penstock.topology.physical.topology import SinkNode, Topology, checked_topology

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


@dataclass(frozen=True)
class ProducedRecord:
    """A record as it would stand in its topic; ``partition`` −1 where the default partitioner chooses."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    partition: int


class _Collector:
    """What sinks and changelogs wrote: per topic in order, and all that was not looked at yet."""

    def __init__(self) -> None:
        self.topics: dict[str, deque[ProducedRecord]] = defaultdict(deque)
        self.produced: set[str] = set()
        self.unseen: deque[tuple[str, ProducedRecord]] = deque()
        self.logged: Mapping[str, dict[bytes, bytes | None]] = {}
        """Of changelogs: what was written last under each key."""

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        record = ProducedRecord(key, value, timestamp, headers or NO_HEADERS, partition)
        self.topics[topic].append(record)
        self.produced.add(topic)
        self.unseen.append((topic, record))
        if key is not None and topic in self.logged:
            self.logged[topic][key] = value

    def partitions(self, topic: str) -> int:
        return 1


class TopologyTestDriver:
    """The whole topology as one task, 0_0, whose topics all have one partition.

    Each record that is piped in is processed and committed before the call returns, so a cache never merges the updates
    of two records. The wall clock stands still but for :meth:`advance_wall_clock_time`. As in Kafka Streams, one task
    means one stream time for all: results may differ from those of a cluster where records come late.

    The driver also looks for what would go wrong live in silence, and raises RuleBrokenError: a function that changes
    what it was given, or returns a coroutine; a value in a store that does not come back from its serde as it was.
    After each commit stores forget their objects: the program goes on with what it would find after a restart. A store
    of the program's own must have written to its changelog what it put to its rows.

    A record of a global store's topic, piped in or written by the program, is in the store at once.

    ``config`` needs no ``application.id``. Close the driver, or use it in a ``with``.
    """

    def __init__(
        self, topology: Topology, config: Mapping[str, Any] | None = None, initial_wall_clock_ms: int = 0
    ) -> None:
        checked_topology(topology)
        checked = StreamsConfig.of({"application.id": "topology-test-driver", **(config or {})})
        check_explicit_names(topology, checked.ensure_explicit_internal_resource_naming)
        self._now_ms = initial_wall_clock_ms
        self._collector = _Collector()
        self._error: RecordError | RuleBrokenError | None = None
        self._lost: list[RuleBrokenError] = []
        self._closed = False
        program = TaskProgram.of([watched_functions(topology.as_one)], checked)
        self._program = watched_serdes(program, self._lost.append)
        sinks = [node.topic for node in program.nodes if isinstance(node, SinkNode)]
        changelogs = [changelog.topic for changelog in program.changelogs.values()]
        self._written = {topic for topic in (*sinks, *changelogs) if isinstance(topic, str)}
        self._writes_any = any(callable(topic) for topic in sinks)
        logs = {name: log.topic for name, log in program.changelogs.items() if not log.is_source_topic}
        self._rows = WatchedTaskStores(open_task_stores(None, program.stores.values()), logs)
        self._collector.logged = {topic: self._rows.logged[name] for name, topic in logs.items()}
        self._globals = DrivenGlobalStores(topology, checked, self._lost)
        self._state_manager = StateManager(TaskId(0, 0), self._program, self._rows, self._collector)
        self._task = Task(self._state_manager, self._collector, self._globals.stores, clock_stands=True)
        self._offsets = dict.fromkeys(program.sources, 0)
        for topic in self._offsets:
            self._task.set_caught_up(TopicPartition(topic, 0), True)
        self._globals.init(self._now_ms)
        self._task.init(self._now_ms)
        self._work()

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def create_input_topic(
        self,
        topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        start_timestamp_ms: int | None = None,
        auto_advance: Duration = 0,
    ) -> TestInputTopic[K, V]:
        """A topic to pipe records into. Records without a timestamp get ``start_timestamp_ms`` (the driver's clock at
        this moment by default), and ``auto_advance`` more each time. Raises StreamsError for a topic nothing reads."""
        if not self._reads(topic):
            raise self._unread(topic)
        start = self._now_ms if start_timestamp_ms is None else start_timestamp_ms
        key_serde, value_serde = bound(key_serde, topic, "key"), bound(value_serde, topic, "value")
        return TestInputTopic(self, topic, key_serde, value_serde, start, to_ms(auto_advance, "auto_advance"))

    def create_output_topic(self, topic: str, key_serde: Serde[K], value_serde: Serde[V]) -> TestOutputTopic[K, V]:
        """A topic to read results from, each once. Internal topics can be read too, under their full names.

        Raises StreamsError for a topic that nothing writes, unless a function names the topics of some records."""
        if topic not in self._written and not self._writes_any:
            written = ", ".join(sorted(self._written)) or "none"
            raise StreamsError(f"the topology writes no topic {topic!r}; it writes: {written}")
        key_serde, value_serde = bound(key_serde, topic, "key"), bound(value_serde, topic, "value")
        return TestOutputTopic(self._collector.topics[topic], topic, key_serde, value_serde)

    def produced_topic_names(self) -> set[str]:
        """The topics that were written to so far."""
        return set(self._collector.produced)

    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Pipe one record in, as bytes. Raises RecordError when it cannot be handled, RuleBrokenError when the program
        breaks a rule; then the driver has ended."""
        with self._running():
            if not self._reads(topic):
                raise self._unread(topic)
            if topic in self._offsets:
                self._enqueue(topic, key, value, timestamp, headers)
                self._work()
            else:
                self._globals.pipe(topic, key, value, timestamp, headers, self._now_ms)

    def advance_wall_clock_time(self, advance: Duration) -> None:
        """Move the clock; wall-clock punctuators that become due are called once."""
        with self._running():
            self._now_ms += to_ms(advance, "advance")
            self._task.punctuate(self._now_ms)
            self._commit()
            self._work()

    def get_key_value_store(self, name: str) -> TypedKeyValueStore:
        """The key-value store ``name``; writing to it is allowed. Raises UnknownStateStoreError."""
        store = self.get_state_store(name)
        if isinstance(store, TypedKeyValueStore):
            return store
        raise UnknownStateStoreError(f"store {name!r} is no key-value store: get it with get_state_store")

    def get_state_store(self, name: str) -> Any:
        """The store ``name``, of whatever kind, as a processor sees it; writing to it is allowed.

        Raises UnknownStateStoreError.
        """
        if name in self._program.stores:
            return self._state_manager.store(name).view()
        if name in self._globals.stores:
            return self._globals.stores[name].opened.view()
        known = ", ".join((*self._program.stores, *self._globals.stores)) or "none"
        raise UnknownStateStoreError(f"there is no store {name!r}; stores of the topology: {known}")

    def metrics(self) -> TaskMetrics:
        """The task's counters, and the records that global stores have dropped."""
        metrics = self._task.metrics()
        dropped = metrics.dropped_records_total + self._globals.dropped_records
        return replace(metrics, dropped_records_total=dropped)

    def close(self) -> None:
        """Close processors and stores. Idempotent."""
        if not self._closed:
            self._closed = True
            with closing(self._globals):
                self._task.close()

    def _reads(self, topic: str) -> bool:
        if topic not in self._offsets and topic not in self._globals.topics and self._task.add_topic(topic):
            self._offsets[topic] = 0
        return topic in self._offsets or topic in self._globals.topics

    def _unread(self, topic: str) -> StreamsError:
        read = ", ".join((*self._offsets, *self._globals.topics))
        return StreamsError(f"the topology reads no topic {topic!r}; it reads: {read}")

    @contextmanager
    def _running(self) -> Iterator[None]:
        if self._closed:
            raise StreamsError("the driver is closed")
        if self._error is not None:
            raise StreamsError(f"the driver's task has ended with: {self._error}. Make a new driver") from self._error
        try:
            yield
        except (RecordError, RuleBrokenError) as error:
            self._error = error
            raise

    def _enqueue(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        offset = self._offsets[topic]
        self._offsets[topic] = offset + 1
        columns: list[Headers | None] | None = [headers] if headers else None
        self._task.add(RecordBatch(TopicPartition(topic, 0), [key], [value], [timestamp], [offset], columns))

    def _work(self) -> None:
        self._read_back()
        while self._task.process(1, self._now_ms):
            self._commit()
            self._read_back()
        self._task.between_records(self._now_ms)

    def _commit(self) -> None:
        deque(self._task.prepare_commit(), maxlen=0)
        self._task.complete_commit({})
        if self._lost:
            raise self._lost[0]
        self._rows.check(self._state_manager.store(name) for name in self._rows.logged)
        self._state_manager.forget_objects()

    def _read_back(self) -> None:
        """Records that were written to a topic the topology itself reads go in again."""
        unseen = self._collector.unseen
        while unseen:
            topic, record = unseen.popleft()
            if topic in self._offsets:
                self._enqueue(topic, record.key, record.value, record.timestamp, record.headers)
            elif topic in self._globals.topics:
                self._globals.pipe(
                    topic, record.key, record.value, record.timestamp, record.headers, self._now_ms
                )  # fmt: skip


class TestInputTopic(Generic[K, V]):
    """Pipes records into one topic of a driver. Mirrors ``TestInputTopic``."""

    __test__ = False

    def __init__(
        self,
        driver: TopologyTestDriver,
        topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        timestamp_ms: int,
        advance_ms: int,
    ) -> None:
        self._driver = driver
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._timestamp_ms = timestamp_ms
        self._advance_ms = advance_ms

    def pipe_input(
        self, key: K | None, value: V | None, timestamp_ms: int | None = None, headers: Headers = NO_HEADERS
    ) -> None:
        """One record; everything it causes has happened when this returns."""
        if timestamp_ms is None:
            timestamp_ms = self._timestamp_ms
            self._timestamp_ms += self._advance_ms
        raw_key = None if key is None else self._bytes("key", self._key_serde, key)
        raw_value = None if value is None else self._bytes("value", self._value_serde, value)
        self._driver.pipe(self._topic, raw_key, raw_value, timestamp_ms, headers)

    def _bytes(self, part: str, serde: Serde[Any], given: object) -> bytes:
        try:
            return serde.serialize(given)
        except Exception as error:
            why = why_refused(serde, given, error)
            raise SerializationError(f"input topic {self._topic}: {part}: {why}") from error

    def pipe_record(self, record: TestRecord[K | None, V | None]) -> None:
        """One record."""
        self.pipe_input(record.key, record.value, record.timestamp, record.headers)

    def pipe_key_value_list(self, records: Iterable[tuple[K | None, V | None]]) -> None:
        """Records in their order, with automatic timestamps."""
        for key, value in records:
            self.pipe_input(key, value)

    def pipe_value_list(self, values: Iterable[V | None]) -> None:
        """Values under a null key, in their order, with automatic timestamps."""
        for value in values:
            self.pipe_input(None, value)

    def advance_time(self, advance: Duration) -> None:
        """Move the automatic timestamp."""
        self._timestamp_ms += to_ms(advance, "advance")


class TestOutputTopic(Generic[K, V]):
    """Reads what the topology wrote to one topic, each record once. Mirrors ``TestOutputTopic``."""

    __test__ = False

    def __init__(self, records: deque[ProducedRecord], topic: str, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self._records = records
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde

    def is_empty(self) -> bool:
        """Whether everything was read."""
        return not self._records

    def get_queue_size(self) -> int:
        """How many records were not read yet."""
        return len(self._records)

    def read_record(self) -> TestRecord[K | None, V | None]:
        """The next record. Raises StreamsError when there is none."""
        if not self._records:
            raise StreamsError(f"topic {self._topic} is empty: nothing (more) was written to it")
        record = self._records.popleft()
        return TestRecord(
            None if record.key is None else self._key_serde.deserialize(record.key),
            None if record.value is None else self._value_serde.deserialize(record.value),
            record.timestamp,
            record.headers,
        )

    def read_value(self) -> V | None:
        """The next record's value."""
        return self.read_record().value

    def read_key_value(self) -> tuple[K | None, V | None]:
        """The next record's key and value."""
        record = self.read_record()
        return record.key, record.value

    def _rest(self) -> Iterator[TestRecord[K | None, V | None]]:
        while self._records:
            yield self.read_record()

    def read_records_to_list(self) -> list[TestRecord[K | None, V | None]]:
        """All records that were not read yet."""
        return list(self._rest())

    def read_values_to_list(self) -> list[V | None]:
        """Their values."""
        return [record.value for record in self._rest()]

    def read_key_values_to_list(self) -> list[tuple[K | None, V | None]]:
        """Their keys and values."""
        return [(record.key, record.value) for record in self._rest()]

    def read_key_values_to_map(self) -> dict[K | None, V | None]:
        """Key to value; the last of each key wins."""
        return {record.key: record.value for record in self._rest()}
