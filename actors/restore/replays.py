"""Restores stores from changelogs: reads, gathers and writes records, a slice at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Generic, TypeVar

from structlog.stdlib import BoundLogger

from penstock.actors.clock import Clock
from penstock.actors.restore.restore_events import RestoreEvents
from penstock.actors.restore.restore_progress import RestoreProgress
from penstock.actors.status import RestoreFigures
from penstock.actors.task_host.stored_task import StoredTask
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import RecordBatch
from penstock.common.standby_listener import SuspendReason
from penstock.kafka.contracts import RecordConsumer
from penstock.state.contracts import BulkLoad

_SLICE_S, _SLICE_ALONE_S = 0.002, 0.01
"""Seconds of a slice if tasks run, and if only queries and commands wait for it."""
_FIRST_SLICE, _LARGEST_SLICE = 500, 8000
_WORTH_A_LOAD = 20_000
"""Least number of offsets for which records are gathered into a load; fewer are written as they arrive."""
_LARGEST_LOAD, _LARGEST_LOADS = 16 << 20, 48 << 20
"""Bytes of rows that are gathered for one store, and for all, before they are written."""
_LOG_EVERY_S = 10.0
Stored = TypeVar("Stored", bound=StoredTask)
EventsOf = Callable[[Stored, str, TopicPartition], RestoreEvents]
"""Returns the receiver of the events of a replay of a task's store from a partition."""


@dataclass
class Replay(Generic[Stored]):
    """One store of ``task``, read from ``position`` up to ``end``."""

    task: Stored
    store: str
    partition: TopicPartition
    position: int
    end: int
    progress: RestoreProgress
    events: RestoreEvents
    load: BulkLoad | None
    """Records that are gathered and not written yet."""
    followed: bool
    """True if records after ``end`` are taken, too."""
    caught_up: bool = False
    """True if the replay has reached its end, and continues."""
    waits: bool = False
    """True if the replay has reached its end, and is paused until the end is moved."""
    thrown_away: int | None = None
    """The first fetched offset that was not before ``end``: it must be fetched again when the end is moved."""

    @property
    def offsets_left(self) -> int:
        """Number of offsets that the store lacks."""
        return max(0, self.end - self.position)

    @property
    def has_no_end(self) -> bool:
        """True if the replay no longer ends, because it follows its changelog."""
        return self.followed and self.caught_up


class Replays(Generic[Stored]):
    """All replays that an actor reads through one consumer, which is made when needed. The owner of a replay decides
    its fate at its end: a restore ends, a standby continues to follow."""

    def __init__(
        self,
        make_consumer: Callable[[], RecordConsumer],
        clock: Clock,
        log: BoundLogger,
        events_of: EventsOf[Stored],
    ) -> None:
        self.by_partition: dict[TopicPartition, Replay[Stored]] = {}
        self.overtaken: set[TopicPartition] = set()
        """Changelogs that have deleted records before they were read; their stores are wiped: :meth:`begin_again`."""
        self._make_consumer = make_consumer
        self._clock = clock
        self._log = log
        self._events_of = events_of
        self._made: RecordConsumer | None = None
        self._progress: dict[TaskId, RestoreProgress] = {}
        self._writing: tuple[Replay[Stored], Iterator[None]] | None = None
        self._slice_records = _FIRST_SLICE
        self._log_at_s = 0.0

    @property
    def consumer(self) -> RecordConsumer:
        """The consumer that reads all replays."""
        if self._made is None:
            self._made = self._make_consumer()
        return self._made

    def has(self, task: Stored) -> bool:
        """Returns True if ``task`` has a replay."""
        return any(replay.task is task for replay in self.by_partition.values())

    def add(
        self, task: Stored, store: str, tp: TopicPartition, position: int, end: int, followed: bool = False
    ) -> None:
        """Add a replay; :meth:`assign` must follow."""
        now_s = self._clock.monotonic_s()
        if not self.by_partition:
            self._log_at_s = now_s + _LOG_EVERY_S
        self._progress.setdefault(task.id, RestoreProgress(now_s))
        self._log.info(
            "restoring store",
            task=str(task.id), store=store, topic=tp.topic, offset=position, end=end, records_left=end - position,
        )  # fmt: skip
        events = self._events_of(task, store, tp)
        events.start(position, end)
        load = _load(task, store, position, end)
        progress = RestoreProgress(now_s)
        self.by_partition[tp] = Replay(task, store, tp, position, end, progress, events, load, followed)

    def assign(self) -> None:
        """Have the consumer read these replays: new ones from their positions; the others continue."""
        if self._made is not None:
            self._made.assign({tp: replay.position for tp, replay in self.by_partition.items()})

    def begin_again(self, ends: Mapping[TopicPartition, int]) -> None:
        """Restore the wiped stores of these changelogs from the beginning, up to new ends. May be called again after an
        error."""
        for tp, beginning in self.consumer.fetch_beginning_offsets(ends).items():
            replay = self.by_partition[tp]
            replay.end, replay.caught_up = ends[tp], False
            self._log.info(
                "restoring store",
                task=str(replay.task.id), store=replay.store, topic=tp.topic, offset=beginning, end=replay.end,
                records_left=replay.end - beginning,
            )  # fmt: skip
            self._abandon(replay)
            replay.position, replay.thrown_away = beginning, None
            replay.progress = RestoreProgress(self._clock.monotonic_s())
            replay.load = _load(replay.task, replay.store, beginning, replay.end)
            self.consumer.seek(tp, beginning)
            replay.events.start(beginning, replay.end)
        self.overtaken -= ends.keys()

    # ---- slices ----

    def step(self, alone: bool = False) -> tuple[bool, list[Replay[Stored]]]:
        """Restore for one slice. Returns True if there were records, and the replays that have reached their ends with
        everything written. ``alone``: no task runs that would wait for it."""
        slice_s = _SLICE_ALONE_S if alone else _SLICE_S
        busy = False
        if self._make_room():
            busy = self._read(slice_s) if self._writing is None else self._write(slice_s)
        return busy, self._at_end()

    def _read(self, slice_s: float) -> bool:
        consumer, clock = self.consumer, self._clock.monotonic_s
        size, begun_s = self._slice_records, clock()
        batches = consumer.poll(size, 0)
        for batch in batches:
            replay = self.by_partition.get(batch.partition)
            # A new client continues at a lost position, if there are records now.
            if replay is not None and batch.partition not in self.overtaken:
                self._take(replay, batch)
        for tp in consumer.lost_positions().keys() & self.by_partition.keys() - self.overtaken:
            self._overtake(self.by_partition[tp])
        spent_s = clock() - begun_s
        if spent_s > 0 and sum(map(len, batches)) * 2 >= size:
            wanted = int(size * slice_s / spent_s)
            self._slice_records = max(_FIRST_SLICE // 5, min(max(wanted, size // 2), size * 2, _LARGEST_SLICE))
        return bool(batches)

    def _overtake(self, replay: Replay[Stored]) -> None:
        """Wipe its store at once. The changelog may have been created again. If the new one grows beyond the offset of
        the store, nothing would show, after a crash or on another actor, that the store does not belong to it."""
        self._log.warning(
            "store wiped, restoring from the beginning",
            why="its changelog has deleted records before they were restored, or was created again",
            task=str(replay.task.id), store=replay.store, topic=replay.partition.topic, offset=replay.position,
        )  # fmt: skip
        replay.load = None
        replay.task.state_manager.wipe(replay.store)
        self.overtaken.add(replay.partition)

    def _take(self, replay: Replay[Stored], read: RecordBatch) -> None:
        batch = read if replay.followed else read.before(replay.end)
        if len(batch) < len(read) and replay.thrown_away is None:
            replay.thrown_away = read.offsets[len(batch)]
        if not batch.offsets:
            return
        replay.position = batch.offsets[-1] + 1
        replay.task.state_manager.restore(
            replay.store, batch.keys, batch.values, batch.timestamps, replay.position, batch.headers, replay.load
        )
        now_s = self._clock.monotonic_s()
        replay.progress.restored(len(batch), now_s)
        self._progress[replay.task.id].restored(len(batch), now_s)
        if replay.load is None:
            replay.events.restored(replay.position, replay.progress.total)

    def _at_end(self) -> list[Replay[Stored]]:
        if self._writing is not None:
            return []
        position, replays = self.consumer.position, self.by_partition
        left = [
            (tp, it) for tp, it in replays.items() if tp not in self.overtaken and not it.has_no_end and not it.waits
        ]
        reached = [it for tp, it in left if position(tp) >= it.end]
        for replay in reached:
            if replay.load is not None:
                self._begin_to_write(replay)
                replay.load = None
                return []
        return reached

    # ---- loads ----

    def _make_room(self) -> bool:
        """Begin to write the largest load, if it or all together have become too large. Returns False if it must wait:
        then no more may be read."""
        if self._writing is not None:
            return True
        loads = [(load.resident_bytes, load, replay) for replay in self.by_partition.values() if (load := replay.load)]
        if loads:
            largest, load, replay = max(loads, key=itemgetter(0))
            if largest >= _LARGEST_LOAD or sum(size for size, _, _ in loads) >= _LARGEST_LOADS:
                if load.must_wait:
                    return False
                self._begin_to_write(replay)
        return True

    def _begin_to_write(self, replay: Replay[Stored]) -> None:
        assert replay.load is not None
        self._writing = replay, replay.task.state_manager.write_load(replay.store, replay.load, replay.position)

    def _write(self, slice_s: float) -> bool:
        """Continue to write a load. Nothing is read meanwhile, so that its offset remains that of its last record."""
        assert self._writing is not None
        clock, (replay, steps) = self._clock.monotonic_s, self._writing
        until_s = clock() + slice_s
        for _ in steps:
            if clock() >= until_s:
                return True
        self._writing = None
        replay.events.restored(replay.position, replay.progress.total)
        return True

    def _abandon(self, replay: Replay[Stored], reason: SuspendReason = SuspendReason.MIGRATED) -> None:
        """End the replay early: the records of its load are restored again later, or are not needed."""
        if self._writing is not None and self._writing[0] is replay:
            self._writing = None
        replay.load = None
        replay.events.suspended(reason)

    # ---- progress ----

    def log_if_due(self) -> bool:
        """Log the progress of replays that are not at their ends, every ten seconds. Returns True if it was time."""
        now_s = self._clock.monotonic_s()
        if now_s < self._log_at_s:
            return False
        self._log_at_s = now_s + _LOG_EVERY_S
        for tp, replay in self.by_partition.items():
            if replay.caught_up:
                continue
            rate = replay.progress.rate(now_s)
            self._log.info(
                "still restoring store",
                task=str(replay.task.id), store=replay.store, topic=tp.topic, records_left=replay.offsets_left,
                records_per_s=round(rate), seconds_left=round(replay.offsets_left / rate) if rate else None,
            )  # fmt: skip
        return True

    def log_end(self, replay: Replay[Stored]) -> None:
        """Report that ``replay`` has reached its end, to its events and in the log."""
        replay.events.end()
        took_s, total = replay.progress.took_s(self._clock.monotonic_s()), replay.progress.total
        self._log.info(
            "store restored",
            task=str(replay.task.id), store=replay.store, offset=replay.position, records=total,
            seconds=round(took_s, 1), records_per_s=round(total / took_s) if took_s > 0 else None,
        )  # fmt: skip

    def progress(self, task: Stored) -> RestoreFigures:
        """Returns how far the stores of ``task`` are restored."""
        left = sum(replay.offsets_left for replay in self.by_partition.values() if replay.task is task)
        known = self._progress.get(task.id)
        if known is None:
            return RestoreFigures()
        return RestoreFigures(left, known.total, known.rate(self._clock.monotonic_s()) if self.has(task) else 0.0)

    # ---- ends ----

    def end(self, replay: Replay[Stored]) -> None:
        """Stop reading ``replay``, which has reached its end. :meth:`assign` must follow."""
        del self.by_partition[replay.partition]
        self.overtaken.discard(replay.partition)
        self.log_end(replay)

    def forget(self, task: Stored, reason: SuspendReason = SuspendReason.MIGRATED) -> None:
        """Read no more for ``task``, which is about to be closed, or promoted; the written rows are on disk."""
        self._progress.pop(task.id, None)
        if self.has(task):
            for replay in self.by_partition.values():
                if replay.task is task:
                    self._abandon(replay, reason)
            self.by_partition = {tp: replay for tp, replay in self.by_partition.items() if replay.task is not task}
            self.overtaken &= self.by_partition.keys()
            self.assign()

    def close(self) -> None:
        """Close the consumer; the restored rows are on disk."""
        replays, self.by_partition = self.by_partition, {}
        try:
            for replay in replays.values():
                self._abandon(replay)
        finally:
            if self._made is not None:
                self._made.close()


def _load(task: StoredTask, store: str, position: int, end: int) -> BulkLoad | None:
    return task.state_manager.bulk_load(store, position) if end - position >= _WORTH_A_LOAD else None
