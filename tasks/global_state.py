"""The global stores of one host: each is kept from all partitions of its topic, and read by every task of the host.

Mirrors ``GlobalStateManagerImpl`` and ``GlobalStateUpdateTask``. The topics take the place of changelogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from typing_extensions import override

from penstock.common.errors import ProcessingError, RetriableError
from penstock.common.handlers import LogAndFail
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Headers, RecordBatch
from penstock.common.serdes import Serdes
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import TaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.compose import compose
from penstock.tasks.contracts import RecordCollector
from penstock.tasks.failures import Failures
from penstock.tasks.program import TaskProgram
from penstock.tasks.punctuation import PunctuationQueue
from penstock.tasks.record_queue import RecordQueue
from penstock.tasks.state_manager import StateManager
from penstock.tasks.wiring import Store
from penstock.topology.physical.operators.global_tables import GlobalProcess
from penstock.topology.physical.topology import ProcessorNode
from penstock.topology.processor_api.processor import PunctuationType

GLOBAL_TASK = TaskId(-1, -1)
"""Kafka Streams' id of the task of global stores."""
_OFFSETS = "global offsets"  # no store of a program has a blank in its name
_BEGUN = 1  # stored with the rows of a store whose partitions have offsets; gone when the store was wiped


def with_offsets(program: TaskProgram) -> tuple[AnyStoreBuilder, ...]:
    """Returns the stores that a host must open for the global stores of ``program``."""
    stores = tuple(program.stores.values())
    on_disk = any(store.persistent for store in stores)
    return (*stores, KeyValueStoreBuilder(_OFFSETS, Serdes.bytes(), Serdes.bytes(), on_disk, source_topic=_OFFSETS))


class _NoCollector(RecordCollector):
    """A collector that gets no records: nothing is downstream of a global store, and nothing is logged."""

    @override
    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        raise AssertionError(f"a global store has written to topic {topic}")

    @override
    def partitions(self, topic: str) -> int:
        raise AssertionError(f"a global store has asked for the partitions of topic {topic}")


class GlobalStateManager(StateManager):
    """The global stores, each with its offset in every partition of its topic.

    ``task_stores`` has the stores of :func:`with_offsets`.
    """

    def __init__(self, program: TaskProgram, task_stores: TaskStores, budget: MemoryBudget | None) -> None:
        super().__init__(GLOBAL_TASK, program, task_stores, _NoCollector(), budget)
        self._offsets = task_stores.store(_OFFSETS)

    @override
    def _failures(self, program: TaskProgram, collector: RecordCollector) -> Failures:
        config = program.config
        if not config.processing_exception_handler_global_enabled:
            config = config.model_copy(update={"processing_exception_handler": LogAndFail()})
        return Failures(self.context, config, None)

    def offset(self, store: str, partition: TopicPartition) -> int | None:
        """Returns the next offset of ``partition`` to read for ``store``; None if :meth:`begin` must empty it first."""
        if not self.program.stores[store].persistent or self.changelog_offset(store) is None:
            return None
        return self.committed_offset(partition) if self._offsets.get(_row_key(partition)) is not None else None

    def committed_offset(self, partition: TopicPartition) -> int:
        """Returns the offset of ``partition`` after the last record that its store had at the last commit, or 0."""
        row = self._offsets.get(_row_key(partition))
        return 0 if row is None else int.from_bytes(row, "big")

    def begin(self, store: str, positions: Mapping[TopicPartition, int]) -> None:
        """Empty ``store``, which is then filled from ``positions``: these name all of its partitions."""
        self.wipe(store)
        batch = self._task_stores.new_batch()
        for partition, offset in positions.items():
            batch.put(_OFFSETS, _row_key(partition), _row(offset))
        self._task_stores.write(batch, {store: _BEGUN})

    def restore_from(self, store: str, records: RecordBatch) -> None:
        """Put the rows of ``records``, as they are, into ``store``. Committed at once."""
        batch = self._task_stores.new_batch()
        self._put_restored(batch, store, records.keys, records.values, records.timestamps, records.headers)
        batch.put(_OFFSETS, _row_key(records.partition), _row(records.offsets[-1] + 1))
        self._task_stores.write(batch, {store: _BEGUN})

    def commit_all(self, positions: Mapping[TopicPartition, int]) -> Iterator[None]:
        """Write all changes, with the ``positions`` up to which they were made. Exhaust it; between two steps the
        stores may be read, but not changed."""
        yield from self.take_snapshot(frozenset())
        yield from self.flush_snapshot()
        assert self._batch is not None
        for partition, offset in positions.items():
            self._batch.put(_OFFSETS, _row_key(partition), _row(offset))
        self.commit({})
        yield from self.release_flushed()


def _row_key(partition: TopicPartition) -> bytes:
    return str(partition).encode()


def _row(offset: int) -> bytes:
    return offset.to_bytes(8, "big")


class GlobalStateTask:
    """Keeps the global stores of one host: no Kafka, no clock. One thread, which is that of the tasks that read them.

    The host calls ``init`` once. Then it may call :meth:`restore` for records that exist already. It calls
    :meth:`update` for new ones, in the order of each partition. Now and then it exhausts :meth:`commit`. ``program``
    may be a copy with other serdes or operators: the stores of ``task_stores`` are opened by it.
    """

    def __init__(self, program: TaskProgram, task_stores: TaskStores, budget: MemoryBudget | None = None) -> None:
        self.state_manager = GlobalStateManager(program, task_stores, budget)
        self._program = program
        self._context = self.state_manager.context
        manager = self.state_manager
        self.stores = {name: Store(builder, manager.store(name)) for name, builder in program.stores.items()}
        """The stores that the tasks of this host may read."""
        self.store_of = {log.topic: store for store, log in program.changelogs.items()}
        """By topic, the store that is kept from it."""
        processed = [
            node.stores[0]
            for node in program.nodes
            if isinstance(node, ProcessorNode) and isinstance(node.operator, GlobalProcess)
        ]
        self._copied = frozenset(self.stores) - frozenset(processed)
        queues = {type: PunctuationQueue() for type in PunctuationType}
        composed = compose(program, self.stores, self._context, _NoCollector(), queues, self.stores)
        self._sources, self._processors = composed.sources, composed.processors
        self._queues: dict[TopicPartition, RecordQueue] = {}
        self._positions: dict[TopicPartition, int] = {}

    def init(self, wall_ms: int) -> None:
        """Initialise the processors. Raises ProcessingError."""
        self._context.wall_ms = wall_ms
        for hosted in self._processors:
            try:
                hosted.processor.init(hosted.context)
            except Exception as error:
                what = f"the processor cannot be initialised: {type(error).__name__}: {error}"
                raise ProcessingError(what, operator=hosted.name) from error

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the stores are kept from."""
        return tuple(self._sources)

    def restore(self, batch: RecordBatch, wall_ms: int) -> None:
        """Take in records that exist before the tasks begin: a table's rows as they are, without looking at them;
        the records of a processor's store by :meth:`update`."""
        store = self.store_of[batch.partition.topic]
        if store in self._copied and not self.state_manager.store(store).has_changes:
            self.state_manager.restore_from(store, batch)
        else:
            self.update(batch, wall_ms)

    def update(self, batch: RecordBatch, wall_ms: int) -> None:
        """Take in records as they come. Raises RecordError for one that cannot be handled, if no handler drops it."""
        self._context.wall_ms = wall_ms
        queue = self._queues.get(batch.partition)
        if queue is None:
            source = self._sources[batch.partition.topic]
            queue = self._queues[batch.partition] = RecordQueue(batch.partition, source, self._context, False)
        queue.add(batch)
        self._work(queue)
        self.state_manager.budget.count_processed(len(batch))

    def _work(self, queue: RecordQueue) -> None:
        while queue:
            self._run(queue)
        if queue.processed_offset >= 0:
            self._positions[queue.partition] = queue.processed_offset + 1
        self._context.leave()

    @property
    def waits_for_serdes(self) -> dict[TopicPartition, tuple[int, RetriableError]]:
        """As :attr:`Task.waits_for_serdes`."""
        return {
            tp: (queue.waiting_offset, queue.waits_for)
            for tp, queue in self._queues.items()
            if queue.waits_for is not None
        }

    def ask_serdes(self, wall_ms: int, at_once: bool = False) -> None:
        """Ask the serdes again for which records wait, those whose pause is over, or all if ``at_once``."""
        self._context.wall_ms = wall_ms
        for queue in self._queues.values():
            if queue.waits_for is not None and (at_once or queue.is_due(wall_ms)):
                queue.ask_again(wall_ms)
                self._work(queue)

    def _run(self, queue: RecordQueue) -> None:
        batch, context, head = queue.batch, self._context, queue.source.head
        values = iter(batch.values)
        context.enter(queue.partition, batch.offsets, len(batch.keys), values)
        headers: Sequence[Headers | None] = batch.headers or [None] * len(batch.keys)
        for value, key, timestamp, context.headers in zip(values, batch.keys, batch.timestamps, headers, strict=True):
            context.timestamp = timestamp
            head(key, value, timestamp)
        queue.advance(len(batch.keys))

    def position(self, partition: TopicPartition) -> int:
        """Returns the offset of ``partition`` after the last record that its store has by now."""
        queue = self._queues.get(partition)
        committed = self.state_manager.committed_offset(partition)
        return committed if queue is None else max(committed, queue.processed_offset + 1)

    @property
    def has_changes(self) -> bool:
        """True if there is something to commit."""
        return bool(self._positions)

    def commit(self) -> Iterator[None]:
        """Write all updates. Exhaust it; between two steps the stores may be read, but not updated."""
        positions, self._positions = self._positions, {}
        return self.state_manager.commit_all(positions)

    @property
    def dropped_records(self) -> int:
        """Number of records that the stores could not take, since the task was made."""
        return self._context.dropped_records

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the positions in ``partitions``, which are then read from elsewhere; their updates are committed."""
        for partition in partitions:
            self._queues.pop(partition, None)
            self._positions.pop(partition, None)

    def close(self) -> None:
        """Close processors and stores. What is not committed is lost."""
        try:
            for hosted in reversed(self._processors):
                hosted.processor.close()
        finally:
            self.state_manager.close()
