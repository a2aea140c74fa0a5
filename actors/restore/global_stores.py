"""The global stores of one actor: filled from the first record of their topics to the end before its tasks begin, and
then kept up to date.

All of this happens in the thread of the tasks, slice by slice between their records. So tasks read the stores without a
lock.
Mirrors ``GlobalStreamThread``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from pathlib import Path

from penstock.actors.clock import Clock
from penstock.actors.restore.restore_events import RestoreEvents
from penstock.actors.spec import ApplicationSpec
from penstock.actors.status import TaskState
from penstock.actors.steps import Steps, retry_while_unavailable
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.actors.task_host.serde_waits import SerdeWaits
from penstock.actors.task_host.stored_task import Serialize
from penstock.actors.task_host.task_directory import GLOBAL, TaskDirectory
from penstock.common.errors import BrokerUnreachableError, MissingTopicError, StateStoreLockedError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.log import logger
from penstock.common.position import Position
from penstock.kafka.contracts import Admin, RecordConsumer
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.global_state import GlobalStateManager, GlobalStateTask, with_offsets
from penstock.tasks.program import TaskProgram
from penstock.tasks.wiring import Store

_SLICE_RECORDS = 500


class GlobalStores:
    """One per actor; a program without global stores has an empty one, which is ready at once and costs nothing.

    Call :meth:`opening` first, then :meth:`step` repeatedly. An error that they raise ends the actor.
    """

    def __init__(
        self,
        spec: ApplicationSpec,
        make_consumer: Callable[[], RecordConsumer],
        admin: Admin,
        budget: MemoryBudget,
        clock: Clock,
    ) -> None:
        config = spec.config
        self._subtopologies = spec.topology.global_subtopologies
        self._program = TaskProgram.of(self._subtopologies, config)
        self._root: Path = config.state_dir / config.application_id / GLOBAL
        self._interval_s = config.commit_interval_ms / 1000
        self._make_consumer = make_consumer
        self._admin = admin
        self._budget = budget
        self._clock = clock
        self._log = logger(__name__)
        self._serde_waits = SerdeWaits()
        self._opened: _Opened | None = None
        self._waiting: list[HostedTask] = []
        self._commit: Iterator[None] | None = None
        self._commit_due_s = 0.0
        self._unread: dict[TopicPartition, int] = {}
        self._overtaken: set[str] = set()
        self._listener = spec.restore_listener
        self._restores: dict[TopicPartition, RestoreEvents] = {}
        self.state = TaskState.RUNNING if not self._subtopologies else TaskState.CREATED
        self.given_up = False
        """True if the actor stops before they are filled: then no task can be opened."""
        self.serializers: Mapping[str, Serialize] = {
            name: store.value_serde.serialize
            for name, store in self._program.stores.items()
            if store.value_serde is not None
        }

    # ---- for the other parts of the actor ----

    @property
    def ready(self) -> bool:
        """True if tasks may process records, because the stores are filled."""
        return self.state is TaskState.RUNNING

    @property
    def stores(self) -> Mapping[str, Store]:
        """Stores that tasks may read, once they are open."""
        return self._opened.task.stores if self._opened is not None else {}

    @property
    def state_manager(self) -> GlobalStateManager:
        """The state manager of the stores, for queries once they are open."""
        assert self._opened is not None
        return self._opened.task.state_manager

    @property
    def answering(self) -> dict[TaskId, GlobalStores]:
        """The stores by the task ids under which they are queried, once open: each is the only one of its
        sub-topology."""
        return {TaskId(sub.id, 0): self for sub in self._subtopologies if self._opened is not None}

    def position_of(self, store: str, committed: bool) -> Position:
        """Returns the records of its topic that ``store`` has; if ``committed``, as of the last commit."""
        opened = self._open_ones
        task, topic = opened.task, self._topic_of(store)
        if committed:
            positions = {tp: task.state_manager.committed_offset(tp) for tp in opened.partitions if tp.topic == topic}
        else:
            positions = {tp: task.position(tp) for tp in opened.partitions if tp.topic == topic}
        return Position.of((tp, offset - 1) for tp, offset in positions.items() if offset)

    def topics_of(self, store: str) -> Collection[str]:
        """Returns the one topic from which ``store`` is filled."""
        return (self._topic_of(store),)

    def lacks(self, store: str, bound: Position, seen: Position) -> bool:
        """Returns True if ``seen`` has not reached ``bound``: a global store has all partitions."""
        return not seen.reaches(bound)

    def _topic_of(self, store: str) -> str:
        return next(topic for topic, name in self._open_ones.task.store_of.items() if name == store)

    @property
    def dropped_records(self) -> int | None:
        """Number of records that the stores could not take; None without stores."""
        return self._opened.task.dropped_records if self._opened is not None else None

    def admits(self, hosted: HostedTask) -> bool:
        """Returns True if ``hosted`` may begin now; if not, :meth:`step` returns it when it may."""
        if not self.ready:
            self._waiting.append(hosted)
        return self.ready

    def forget(self, hosted: HostedTask) -> None:
        """Note that ``hosted`` does not wait any more."""
        self._waiting = [waiting for waiting in self._waiting if waiting is not hosted]

    # ---- beginning ----

    def opening(self, is_stopping: Callable[[], bool]) -> list[Steps[None]]:
        """Returns the first jobs, if any: open a directory of the stores that no other actor of this node has open, and
        find out what its stores lack. Both are given up if ``is_stopping`` while no broker answers."""
        return [self._opening(is_stopping)] if self._subtopologies else []

    def _opening(self, is_stopping: Callable[[], bool]) -> Steps[None]:
        self._opened = yield from retry_while_unavailable(self._open, self._clock, is_stopping)
        if self._opened is not None:
            self._open_ones.task.init(self._clock.wall_ms())
            yield from retry_while_unavailable(self._begin, self._clock, is_stopping)
        self.given_up = self.state is TaskState.CREATED

    def _open(self) -> _Opened:
        builders = with_offsets(self._program)
        for number in count():
            directory = TaskDirectory(self._root / str(number))
            try:
                stores = directory.open(builders)
            except StateStoreLockedError:
                continue
            try:
                task = GlobalStateTask(self._program, stores, self._budget)
                return _Opened(task, directory, self._make_consumer())
            except BaseException:
                stores.close()
                raise
        raise AssertionError("unreachable")

    def _begin(self) -> None:
        """Continue from the positions of the local stores, or from the beginning. May be called again after an
        error."""
        opened = self._open_ones
        partitions = opened.partitions = self._partitions()
        beginnings = opened.consumer.fetch_beginning_offsets(partitions)
        ends = opened.consumer.fetch_end_offsets(partitions)
        manager, stores = opened.task.state_manager, opened.task.store_of
        found = {tp: manager.offset(stores[tp.topic], tp) for tp in partitions}
        behind = {tp.topic for tp in partitions if (found[tp] or 0) < ends[tp]}
        retentions = self._admin.delete_retention_ms(behind)
        age_ms = opened.directory.age_ms(self._clock.wall_ms())
        positions: dict[TopicPartition, int] = {}
        for topic, store in stores.items():
            own = [tp for tp in partitions if tp.topic == topic]
            kept = {tp: offset for tp in own if (offset := found[tp]) is not None}
            wrong = None
            if len(kept) < len(own):
                wrong = "the local store lacks a partition"
            elif any(not beginnings[tp] <= offset <= ends[tp] for tp, offset in kept.items()):
                wrong = (
                    "the local store does not belong to the topic, or the topic deleted records before they were read"
                )
            elif topic in retentions and age_ms is not None and age_ms > retentions[topic]:
                wrong = "the local store is older than the topic keeps deletions (delete.retention.ms)"
            if wrong is not None:
                self._log.info("global store is filled from the beginning", store=store, topic=topic, why=wrong)
                kept = {tp: beginnings[tp] for tp in own}
                manager.begin(store, kept)
            positions.update(kept)
        opened.consumer.assign(positions)
        self._await(ends)

    def _partitions(self) -> list[TopicPartition]:
        existing = self._admin.topics()
        topics = self._open_ones.task.topics
        for topic in topics:
            if topic not in existing:
                raise MissingTopicError(
                    f"topic {topic!r} of a global store does not exist: create it, or stop reading it"
                )
            if not existing[topic]:
                raise BrokerUnreachableError(f"Kafka does not report at present which partitions topic {topic!r} has")
        return [TopicPartition(topic, number) for topic in topics for number in range(existing[topic])]

    @property
    def _open_ones(self) -> _Opened:
        assert self._opened is not None
        return self._opened

    def _await(self, ends: Mapping[TopicPartition, int]) -> None:
        """Fill the stores up to ``ends``; then they are ready."""
        self._unread.update(ends)
        self.state = TaskState.RESTORING
        opened = self._open_ones
        for tp, end in ends.items():
            if (position := opened.consumer.position(tp)) < end:
                events = self._restores[tp] = RestoreEvents(self._listener, tp, opened.task.store_of[tp.topic])
                events.start(position, end)
        self._look_for_ends()

    def _look_for_ends(self) -> None:
        if self._overtaken:
            return  # positions have no meaning: records of a wiped store are skipped
        position = self._open_ones.consumer.position
        waits = self._open_ones.task.waits_for_serdes
        self._unread = {tp: end for tp, end in self._unread.items() if position(tp) < end or tp in waits}
        for tp in self._restores.keys() - self._unread.keys():
            self._restores.pop(tp).end()
        if not self._unread:
            self.state = TaskState.RUNNING
            self._commit_due_s = self._clock.monotonic_s() + self._interval_s

    # ---- following ----

    def step(self) -> tuple[bool, list[HostedTask]]:
        """Take new records, or continue a commit. Returns True if there was anything to do, and the tasks to begin."""
        if self._opened is None or self.state is TaskState.CREATED:
            return False, []
        busy = self._read(self._opened) if self._commit is None else self._continue_commit()
        if not self.ready or not self._waiting:
            return busy, []
        admitted, self._waiting = self._waiting, []
        return True, admitted

    def _read(self, opened: _Opened) -> bool:
        task, now_ms = opened.task, self._clock.wall_ms()
        take = task.update if self.ready else task.restore
        if waits := task.waits_for_serdes:
            task.ask_serdes(now_ms)
            waits = task.waits_for_serdes
        self._serde_waits.note(waits, self._clock.monotonic_s())
        batches = opened.consumer.poll(_SLICE_RECORDS, 0) if not waits else []
        for batch in batches:
            if batch.partition.topic in self._overtaken:
                continue  # a new client continues at a lost position, if there are records now
            take(batch, now_ms)
            if (events := self._restores.get(batch.partition)) is not None:
                events.restored(batch.offsets[-1] + 1, events.total + len(batch))
        if lost := {tp.topic for tp in opened.consumer.lost_positions()} - self._overtaken:
            self._overtake(lost)
        if not self.ready:
            self._look_for_ends()
        if task.has_changes and (self._clock.monotonic_s() >= self._commit_due_s or self._budget.needs_commit):
            self._commit = task.commit()
        return bool(batches)

    def _continue_commit(self) -> bool:
        assert self._commit is not None
        for _ in self._commit:
            return True
        self._commit = None
        self._commit_due_s = self._clock.monotonic_s() + self._interval_s
        self._open_ones.directory.note_commit(self._clock.wall_ms())
        return True

    def _overtake(self, topics: set[str]) -> None:
        """Wipe the stores of ``topics`` at once, as :class:`Replays` does, and for the same reason."""
        opened = self._open_ones
        self._commit_all()  # a store that is wiped must have no uncommitted change
        opened.task.forget([tp for tp in opened.partitions if tp.topic in topics])
        for topic in sorted(topics):
            store = opened.task.store_of[topic]
            self._log.error(
                "global store wiped, filled again from the beginning",
                why="its topic has deleted records before they were read, or was created again",
                store=store, topic=topic,
            )  # fmt: skip
            opened.task.state_manager.wipe(store)
        self._overtaken |= topics
        self.state = TaskState.RESTORING  # no task may look into an empty store

    def _commit_all(self) -> None:
        deque(self._commit or (), maxlen=0)
        self._commit = None
        deque(self._open_ones.task.commit(), maxlen=0)

    @property
    def overtaken(self) -> bool:
        """True if a topic has deleted records before they were read: see :meth:`begin_again`."""
        return bool(self._overtaken)

    def begin_again(self) -> None:
        """Fill again the stores that were wiped; tasks wait meanwhile. May be called again after an error."""
        opened = self._open_ones
        again = [tp for tp in self._partitions() if tp.topic in self._overtaken]
        beginnings = opened.consumer.fetch_beginning_offsets(again)
        ends = opened.consumer.fetch_end_offsets(again)
        self._commit_all()
        for topic in self._overtaken:
            store = opened.task.store_of[topic]
            opened.task.state_manager.begin(store, {tp: beginnings[tp] for tp in again if tp.topic == topic})
        for tp in again:
            opened.consumer.seek(tp, beginnings[tp])
            if (events := self._restores.pop(tp, None)) is not None:
                events.suspended()
        self._overtaken.clear()
        self._await(ends)

    def close(self) -> None:
        """Close consumer and stores: uncommitted records are read again later. Idempotent."""
        opened, self._opened = self._opened, None
        self.state = TaskState.CLOSED
        self._commit = None
        if opened is not None:
            restores, self._restores = self._restores, {}
            try:
                opened.consumer.close()
                opened.directory.note_close()
            finally:
                opened.task.close()
            for events in restores.values():
                events.suspended()


class _Opened:
    """State that exists once the stores are open."""

    def __init__(self, task: GlobalStateTask, directory: TaskDirectory, consumer: RecordConsumer) -> None:
        self.task = task
        self.directory = directory
        self.consumer = consumer
        self.partitions: list[TopicPartition] = []
