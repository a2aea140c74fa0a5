"""Runs a topology record by record, without a broker. Mirrors ``org.apache.kafka.streams.TopologyTestDriver``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from typing_extensions import override

from penstock.common.config import StreamsConfig
from penstock.common.errors import RecordError, RetriableError, RuleBrokenError, StreamsError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.patience import Patience
from penstock.common.records import Headers, RecordBatch
from penstock.common.serdes import Serde, SerdePart, bound
from penstock.common.shown import shown_with_type
from penstock.common.time import Duration, Instant, to_epoch_ms, to_ms
from penstock.state.contracts import TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.failures import has_own_handlers
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.tasks.task_metrics import TaskMetrics
from penstock.tasks.wiring import Store
from penstock.testing.collector import ArrivedRecord, Collector
from penstock.testing.driver_topics import TestInputTopic, TestOutputTopic
from penstock.testing.global_stores import DrivenGlobalStores
from penstock.testing.read_only_stores import ReadOnlyStores
from penstock.testing.store_access import StoreAccess
from penstock.testing.tracked_rows import TrackedTaskStores, is_own
from penstock.testing.tracked_serdes import tracked_serdes
from penstock.testing.tracker import tracked_functions
from penstock.topology.physical.explicit_names import check_explicit_names
from penstock.topology.physical.topology import SinkNode, SourceNode, Topology, check_wrapped, checked_topology

K = TypeVar("K")
V = TypeVar("V")
_MOST_ROUNDS = 10_000
"""The most rounds in a row in which the topology may write records to its own source topics."""


_PATIENCE = Patience(10.0, lambda error: error)


class TopologyTestDriver(StoreAccess):
    """The whole topology as one task, 0_0, whose topics all have one partition.

    Each record that is piped in is processed and committed before the call returns, so a cache never merges the updates
    of two records. The wall clock moves only by :meth:`advance_wall_clock_time`. As in Kafka Streams, one task means
    one stream time for all: results may differ from those of a cluster if records come late.

    The driver also checks for mistakes that a live application would not notice, and raises RuleBrokenError: a function
    changes its arguments, or returns a coroutine; the serde of a store changes a value. After each commit stores forget
    their objects, so the program continues with the values that a restart would find. A store of the program's own must
    write the same rows to its changelog as to its store; the processor of a read-only store must put the records of its
    topic unchanged.

    A record of a global store's topic, piped in or written by the program, is in the store at once. Records that the
    program writes to a source topic of its own are processed before the call returns; if that never ends (it would not
    in a live application either), an error reports it.

    ``config`` needs no ``application.id``. ``initial_wall_clock_ms`` is in ms since the epoch, or a ``datetime`` with a
    time zone; the default is 0 (in Kafka Streams, the current time). Close the driver, or use it in a
    ``with``. Raises TopologyError and ConfigError for a program that cannot run.
    """

    def __init__(
        self, topology: Topology, config: Mapping[str, Any] | None = None, initial_wall_clock_ms: Instant = 0
    ) -> None:
        checked_topology(topology)
        checked = StreamsConfig.of({"application.id": "topology-test-driver", **(config or {})})
        check_wrapped(topology, checked)
        if checked.ensure_explicit_internal_resource_naming:
            check_explicit_names(topology)
        self._now_ms = to_epoch_ms(initial_wall_clock_ms, "initial_wall_clock_ms")
        self._error: RecordError | RuleBrokenError | None = None
        self._lost: list[RuleBrokenError] = []
        self._closed = False
        program = TaskProgram.of([tracked_functions(topology.as_one)], checked)
        self._program = tracked_serdes(program, self._lost.append)
        with suppress(RetriableError):  # a registry that a test makes unreachable: the first record asks again
            program.prepare_serdes()
        sinks = [node.topic for node in program.nodes if isinstance(node, SinkNode)]
        changelogs = [changelog.topic for changelog in program.changelogs.values()]
        letters = checked.errors_dead_letter_queue_topic_name
        self._written = {topic for topic in (*sinks, *changelogs, letters) if isinstance(topic, str)}
        self._writes_any = any(callable(topic) for topic in sinks) or has_own_handlers(checked)
        self._globals = DrivenGlobalStores(topology, checked, self._lost)
        self._read_only = ReadOnlyStores(topology)
        self._collector = Collector(self._globals.topics)
        self._offsets: dict[str, int] = {}
        self._partitions: dict[str, TopicPartition] = {}
        for topic in program.sources:
            self._read(topic)
        self._waits = checked.max_task_idle_ms > 0
        self._arrived: deque[tuple[int, ArrivedRecord]] = deque()
        self._mixed = False
        """True if records of several topics have arrived: if not, their order is the task's."""
        self._queued = False
        self._open(open_task_stores(None, program.stores.values()))
        self._globals.init(self._now_ms)
        self._begin()

    def _open(self, stores: TaskStores) -> None:
        """Make stores over ``stores``, from which a task may be made."""
        own = [name for name, builder in self._program.stores.items() if is_own(builder)]
        self._tracked = TrackedTaskStores(stores) if own else None
        self._rows = self._tracked or stores
        self._state_manager = StateManager(TaskId(0, 0), self._program, self._rows, self._collector)
        self._state_manager.context.failures.wait = _PATIENCE.wait
        if self._tracked is not None:
            logs = {name: log.topic for name, log in self._program.changelogs.items() if not log.is_source_topic}
            self._collector.logged = self._tracked.track(map(self._state_manager.store, own), logs)

    def _begin(self, committed: Mapping[TopicPartition, Any] | None = None) -> None:
        """Begin a task over the stores, at the offsets ``committed``."""
        self._task = Task(self._state_manager, self._collector, self._globals.stores, clock_is_frozen=True)
        for partition in self._partitions.values():
            self._task.set_caught_up(partition, True)
        self._task.resume(committed or {})
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
        start_timestamp_ms: Instant | None = None,
        auto_advance: Duration = 0,
    ) -> TestInputTopic[K, V]:
        """Returns a topic to pipe records into. Records without a timestamp get ``start_timestamp_ms`` (ms or a
        ``datetime``; the driver's clock at this moment by default), and ``auto_advance`` more each time.

        Raises StreamsError for a topic nothing reads, and for what is no serde.
        """
        if not self._reads(topic):
            raise self._unread(topic)
        start = self._now_ms if start_timestamp_ms is None else to_epoch_ms(start_timestamp_ms, "start_timestamp_ms")
        keys, values = self._bound(key_serde, topic, "key"), self._bound(value_serde, topic, "value")
        return TestInputTopic(self.pipe, topic, keys, values, start, to_ms(auto_advance, "auto_advance"))

    def create_output_topic(self, topic: str, key_serde: Serde[K], value_serde: Serde[V]) -> TestOutputTopic[K, V]:
        """Returns a topic to read results from, each once. Internal topics can be read too, under their full names.

        Raises StreamsError for a topic that nothing writes, unless a function or an exception handler names the topics
        of some records, and for what is no serde.
        """
        if topic not in self._written and not self._writes_any:
            written = ", ".join(sorted(self._written)) or "none"
            raise StreamsError(f"the topology writes no topic {topic!r}; it writes: {written}")
        keys, values = self._bound(key_serde, topic, "key"), self._bound(value_serde, topic, "value")
        return TestOutputTopic(self._collector.topics[topic], topic, keys, values)

    def _bound(self, serde: Serde[K], topic: str, part: SerdePart) -> Serde[K]:
        if not isinstance(serde, Serde):
            raise StreamsError(
                f"topic {topic}: its {part}s need a Serde, such as Serdes.string(), not {shown_with_type(serde)}"
            )
        return bound(serde, topic, part, self._program.config.serde_settings)

    def produced_topic_names(self) -> set[str]:
        """Returns the topics that were written to so far, internal ones too."""
        return set(self._collector.produced)

    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Pipe one record in, as bytes. A negative ``timestamp`` means that the record's writer gave it none: the
        timestamp extractor decides. Raises RecordError when the record cannot be handled, RuleBrokenError when the
        program breaks a rule; then the driver has ended."""
        self._check_running()
        try:
            if topic not in self._offsets and not self._reads(topic):
                raise self._unread(topic)
            if topic in self._offsets:
                self._arrive((topic, key, value, timestamp, headers))
                self._work()
            else:
                self._globals.pipe(topic, key, value, timestamp, headers, self._now_ms)
        except (RecordError, RuleBrokenError) as error:
            self._error = error
            raise

    def advance_wall_clock_time(self, advance: Duration) -> None:
        """Move the clock, by a timedelta or ms; wall-clock punctuators that become due are called once."""
        with self._running():
            self._now_ms += to_ms(advance, "advance")
            self._task.punctuate(self._now_ms)
            while self._task.commit_requested:
                # An operator whose time continues while it is idle waits for what a cache holds back.
                self._commit()
                self._task.punctuate(self._now_ms)
            self._commit()
            self._work()

    def metrics(self) -> TaskMetrics:
        """Returns the task's counters, with the records that global stores have dropped."""
        metrics = self._task.metrics()
        dropped = metrics.dropped_records_total + self._globals.dropped_records
        return replace(metrics, dropped_records_total=dropped)

    def close(self) -> None:
        """Close processors and stores. Idempotent. Results that were written can still be read."""
        if not self._closed:
            self._closed = True
            with closing(self._globals):
                self._task.close()

    def _reads(self, topic: str) -> bool:
        if topic not in self._offsets and topic not in self._globals.topics and self._task.add_topic(topic):
            self._read(topic)
        return topic in self._offsets or topic in self._globals.topics

    @override
    def _all_stores(self) -> Mapping[str, Store]:
        if self._closed:
            raise StreamsError("the driver is closed, and its stores with it")
        stores = {name: Store(each, self._state_manager.store(name)) for name, each in self._program.stores.items()}
        return {**stores, **self._globals.stores}

    @override
    def _now(self) -> int:
        return self._now_ms

    def _read(self, topic: str) -> None:
        """Note that the task reads ``topic``."""
        self._offsets[topic] = 0
        self._partitions[topic] = TopicPartition(topic, 0)
        self._collector.read_back.add(topic)

    def _unread(self, topic: str) -> StreamsError:
        sources = (node for node in self._program.nodes if isinstance(node, SourceNode))
        patterns = [f"those that match {node.pattern.pattern!r}" for node in sources if node.pattern is not None]
        read = (*self._offsets, *self._globals.topics, *patterns)
        return StreamsError(f"the topology reads no topic {topic!r}; it reads: {', '.join(read)}")

    def _check_running(self) -> None:
        if self._closed:
            raise StreamsError("the driver is closed")
        if self._error is not None:
            raise StreamsError(f"the driver's task has ended with: {self._error}. Make a new driver") from self._error

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._check_running()
        try:
            yield
        except (RecordError, RuleBrokenError) as error:
            self._error = error
            raise

    def _arrive(self, record: ArrivedRecord) -> None:
        """Take ``record``, which is of a topic that the task reads."""
        topic = record[0]
        offset = self._offsets[topic]
        self._offsets[topic] = offset + 1
        arrived = self._arrived
        if arrived and arrived[-1][1][0] != topic:
            self._mixed = True
        arrived.append((offset, record))
        self._read_only.piped(*record[:4])

    def _work(self) -> None:
        self._read_back()
        processed, rounds, end_of_round = 0, 0, _MOST_ROUNDS  # so few records cannot be more rounds
        attempts = count(1)
        while self._process() or self._ask_serdes(attempts):
            self._commit()
            self._read_back()
            processed += 1
            if processed >= end_of_round:
                rounds, end_of_round = rounds + 1, processed + self._waiting()
                if rounds > _MOST_ROUNDS:
                    raise self._endless()
        self._read_only.check(self._state_manager, self._rows)
        self._task.between_records(self._now_ms)

    def _waiting(self) -> int:
        return len(self._arrived) + sum(self._task.queued(partition) for partition in self._partitions.values())

    def _endless(self) -> RuleBrokenError:
        topics = {record[0] for _, record in self._arrived}
        topics |= {topic for topic, partition in self._partitions.items() if self._task.queued(partition)}
        names = ", ".join(map(repr, sorted(topics)))
        return RuleBrokenError(
            f"records come back without end: the topology reads what it writes to {names}, and after {_MOST_ROUNDS:,} "
            "rounds it still writes more. Live it would never end, either: write to another topic, or drop what has "
            "come back often enough"
        )

    def _process(self) -> bool:
        """Process the record that is the task's next. Returns False if there is none that may be processed now."""
        arrived = self._arrived
        if arrived and not self._queued and not self._waits and not self._mixed:
            offset, (topic, key, value, timestamp, headers) = arrived[0]
            partition = self._partitions[topic]
            if not headers and self._task.process_alone(partition, key, value, timestamp, offset, self._now_ms):
                arrived.popleft()
                return True
        while arrived:
            self._enqueue(*arrived.popleft())
        self._mixed = False
        if not self._queued:
            return False
        if self._task.process(1, self._now_ms):
            self._task.finish_calls()
            return True
        self._queued = any(self._task.queued(partition) for partition in self._partitions.values())
        return False

    def _ask_serdes(self, attempts: Iterator[int]) -> bool:
        """Ask serdes again that could not answer. Returns False if no record waits for one."""
        for _, error in self._task.waits_for_serdes.values():
            _PATIENCE.wait(error, next(attempts))
            self._task.ask_serdes()
            return True
        return False

    def _enqueue(self, offset: int, record: ArrivedRecord) -> None:
        topic, key, value, timestamp, headers = record
        columns: list[Headers | None] | None = [headers] if headers else None
        self._task.add(RecordBatch(self._partitions[topic], [key], [value], [timestamp], [offset], columns))
        self._queued = True

    def _commit(self) -> None:
        self._task.commit_at_once()
        while self._task.finish_calls():  # those that a flush has led to
            self._task.commit_at_once()
        if self._lost:
            raise self._lost[0]
        if self._tracked is not None:
            self._tracked.check()
        self._state_manager.forget_objects()

    def _read_back(self) -> None:
        """Feed in again the records that were written to topics which the topology itself reads."""
        unseen = self._collector.unseen
        while unseen:
            record = unseen.popleft()
            if record[0] in self._offsets:
                self._arrive(record)
            else:
                self._globals.pipe(*record, self._now_ms)
