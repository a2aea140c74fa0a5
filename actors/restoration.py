"""Bringing stores up to their changelogs, a slice at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import ClassVar, Generic, TypeVar

from penstock.actors.clock import Clock
from penstock.actors.messages import RestoreFigures
from penstock.actors.restore_events import RestoreEvents
from penstock.actors.restore_progress import RestoreProgress
from penstock.actors.stored_task import StoredTask
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.log import logger
from penstock.common.records import RecordBatch
from penstock.common.restore_listener import StateRestoreListener
from penstock.kafka.contracts import Admin, RecordConsumer
from penstock.state.contracts import BulkLoad

_SLICE_S, _SLICE_ALONE_S = 0.002, 0.01
"""How long a slice takes beside running tasks, and when there is nobody but queries and commands to wait for it."""
_FIRST_SLICE, _LARGEST_SLICE = 500, 8000
Stored = TypeVar("Stored", bound=StoredTask)
_WORTH_A_LOAD = 20_000
"""So many records are gathered; fewer are written as they come."""
_LARGEST_LOAD, _LARGEST_LOADS = 16 << 20, 48 << 20
"""How many bytes of rows are gathered for one store and for all, before they are written."""
_TELL_EVERY_S = 10.0


@dataclass
class Replay(Generic[Stored]):
    """One store that is read from ``position`` up to ``end``. What ``load`` has gathered is not written yet.

    ``caught_up``: it has come to its first end, and is followed on."""

    hosted: Stored
    store: str
    position: int
    end: int
    progress: RestoreProgress
    events: RestoreEvents
    load: BulkLoad | None = None
    caught_up: bool = False

    @property
    def of_source(self) -> bool:
        """Whether the changelog is a source topic of the task."""
        return self.store in self.hosted.source_changelogs

    @property
    def left(self) -> int:
        """How many offsets the store is behind."""
        return max(0, self.end - self.position)


class Restoration(Generic[Stored]):
    """All stores of an actor that are being restored, read through a consumer that is made when needed."""

    follows: ClassVar[bool] = False
    """Whether stores are read on behind what was there when they began."""

    def __init__(
        self,
        make_consumer: Callable[[], RecordConsumer],
        admin: Admin,
        clock: Clock,
        listener: StateRestoreListener | None = None,
        exactly_once: bool = False,
    ) -> None:
        self._listener = listener
        self._exactly_once = exactly_once
        self._make_consumer = make_consumer
        self._admin = admin
        self._clock = clock
        self._log = logger(__name__)
        self._overtaken: set[TopicPartition] = set()
        self._made: RecordConsumer | None = None
        self._replays: dict[TopicPartition, Replay[Stored]] = {}
        self._progress: dict[TaskId, RestoreProgress] = {}
        self._writing: tuple[Replay[Stored], Iterator[None]] | None = None
        self._slice_records = _FIRST_SLICE
        self._tell_at_s = 0.0

    @property
    def active(self) -> bool:
        """Whether anything is being restored."""
        return bool(self._replays)

    @property
    def overtaken(self) -> bool:
        """Whether a changelog has deleted records before they were read: see :meth:`begin_again`."""
        return bool(self._overtaken)

    def _consumer(self) -> RecordConsumer:
        if self._made is None:
            self._made = self._make_consumer()
        return self._made

    def begin(self, hosted: Stored) -> bool:
        """Find what the stores of ``hosted`` lack; False when they lack nothing. May be called again after an error.

        A store whose remembered offset its changelog (a source topic, too) does not have any more is wiped and restored
        from the beginning; so is one that is older than its changelog keeps deletions: deleted keys would come back.
        """
        if not hosted.changelogs:
            return False
        consumer = self._consumer()
        partitions = set(hosted.changelogs.values())
        beginnings = consumer.fetch_beginning_offsets(partitions)
        # A transaction of the last owner may be committed, and its marker not yet be everywhere: where a changelog is
        # behind that, its reader waits for the end of what is open.
        ends = (self._admin.high_watermarks if self._exactly_once else consumer.fetch_end_offsets)(partitions)
        logged = dict(ends)
        # What follows the committed offset of a source topic is still to be processed as input.
        processed = hosted.source_ends
        ends.update({tp: processed[tp] for store, tp in hosted.changelogs.items() if store in hosted.source_changelogs})
        starts = {store: hosted.state_manager.changelog_offset(store) for store in hosted.changelogs}
        begun = {tp: start for store, tp in hosted.changelogs.items() if (start := starts[store]) is not None}
        behind = {tp.topic for tp, start in begun.items() if start < ends[tp]}
        retentions = self._admin.delete_retention_ms(behind)
        age_ms = hosted.directory.age_ms(self._clock.wall_ms())
        resumes = False
        for store, tp in hosted.changelogs.items():
            start, begin, end = starts[store], beginnings[tp], ends[tp]
            wrong = None
            if start is None:
                pass
            elif not begin <= start <= logged[tp]:
                wrong = "the store does not belong to its changelog"
            elif tp.topic in retentions and age_ms is not None and age_ms > retentions[tp.topic]:
                wrong = "the store is older than its changelog keeps deletions (delete.retention.ms)"
            if wrong is not None:
                self._log.warning(
                    "store wiped, restoring from the beginning",
                    why=wrong, task=str(hosted.id), store=store, topic=tp.topic, offset=start, beginning=begin, end=end,
                    age_ms=age_ms, delete_retention_ms=retentions.get(tp.topic),
                )  # fmt: skip
                hosted.state_manager.wipe(store)
                start = None
            position = begin if start is None else max(start, begin)
            if position < end or self.follows:
                self._replays[tp] = self._replay(hosted, store, tp, position, end)
            elif start is None and 0 < begin == end and store not in hosted.source_changelogs:
                self._log.warning(
                    "store starts empty: its changelog has offsets, but no record any more",
                    why="the broker deletes what is older, by event time, than the topic's retention.ms",
                    task=str(hosted.id), store=store, topic=tp.topic, beginning=begin, end=end,
                )  # fmt: skip
            resumes = resumes or (start is not None and start < end)
        if not resumes:
            # No store has a row that is older than now. After a crash its age counts from here, not from a commit long
            # ago, for which it would be wiped again.
            hosted.directory.note_commit(self._clock.wall_ms())
        self._assign()
        return self._restores(hosted)

    def _replay(self, hosted: Stored, store: str, tp: TopicPartition, position: int, end: int) -> Replay[Stored]:
        now_s = self._clock.monotonic_s()
        if not self._replays:
            self._tell_at_s = now_s + _TELL_EVERY_S
        self._progress.setdefault(hosted.id, RestoreProgress(now_s))
        self._log.info(
            "restoring store",
            task=str(hosted.id), store=store, topic=tp.topic, offset=position, end=end, records_left=end - position,
        )  # fmt: skip
        events = self._events(hosted, store, tp)
        events.start(position, end)
        load = _load(hosted, store, position, end)
        return Replay(hosted, store, position, end, RestoreProgress(now_s), events, load)

    def _events(self, hosted: Stored, store: str, tp: TopicPartition) -> RestoreEvents:
        return RestoreEvents(self._listener, tp, store)

    def begin_again(self) -> None:
        """Wipe the stores whose changelogs have deleted records before they were read, and restore them from the
        beginning. May be called again after an error."""
        consumer = self._consumer()
        wanted = self._overtaken & self._replays.keys()
        for tp, beginning in consumer.fetch_beginning_offsets(wanted).items():
            replay = self._replays[tp]
            self._log.warning(
                "store wiped, restoring from the beginning",
                why="its changelog deleted records before they were restored", task=str(replay.hosted.id),
                store=replay.store, topic=tp.topic, offset=replay.position, beginning=beginning,
            )  # fmt: skip
            self._abandon(replay)
            replay.hosted.state_manager.wipe(replay.store)
            replay.position = beginning
            replay.progress = RestoreProgress(self._clock.monotonic_s())
            replay.load = _load(replay.hosted, replay.store, beginning, replay.end)
            consumer.seek(tp, beginning)
            replay.events.start(beginning, replay.end)
        self._overtaken.clear()

    def _restores(self, hosted: Stored) -> bool:
        return any(replay.hosted is hosted for replay in self._replays.values())

    def _assign(self) -> None:
        if self._made is not None:
            self._made.assign({tp: replay.position for tp, replay in self._replays.items()})

    def step(self, alone: bool = False) -> tuple[bool, list[Stored]]:
        """Restore one slice; whether there were records, and the tasks that now lack nothing. ``alone``: no task runs
        that would wait for it."""
        slice_s = _SLICE_ALONE_S if alone else _SLICE_S
        busy = False
        if self._make_room():
            busy = self._read(slice_s) if self._writing is None else self._write(slice_s)
        finished = self._finished()
        if self._clock.monotonic_s() >= self._tell_at_s:
            self._tell()
        if not finished:
            return busy, []
        ready = [self._end(tp).hosted for tp in finished]
        self._assign()
        return True, [hosted for hosted in dict.fromkeys(ready) if not self._restores(hosted)]

    def _read(self, slice_s: float) -> bool:
        consumer, clock = self._consumer(), self._clock.monotonic_s
        size, begun_s = self._slice_records, clock()
        batches = consumer.poll(size, 0)
        for batch in batches:
            replay = self._replays.get(batch.partition)
            if replay is not None:
                self._take(replay, batch)
        self._overtaken.update(consumer.lost_positions())
        spent_s = clock() - begun_s
        if spent_s > 0 and sum(map(len, batches)) * 2 >= size:
            wanted = int(size * slice_s / spent_s)
            self._slice_records = max(_FIRST_SLICE // 5, min(max(wanted, size // 2), size * 2, _LARGEST_SLICE))
        return bool(batches)

    def _take(self, replay: Replay[Stored], read: RecordBatch) -> None:
        batch = self._wanted(replay, read)
        if not batch.offsets:
            return
        replay.position = batch.offsets[-1] + 1
        replay.hosted.state_manager.restore(
            replay.store, batch.keys, batch.values, batch.timestamps, replay.position, batch.headers, replay.load
        )
        now_s = self._clock.monotonic_s()
        replay.progress.restored(len(batch), now_s)
        self._progress[replay.hosted.id].restored(len(batch), now_s)
        if replay.load is None:
            replay.events.restored(replay.position, replay.progress.total)

    def _wanted(self, replay: Replay[Stored], read: RecordBatch) -> RecordBatch:
        """What of ``read`` is to be restored."""
        return _in_front_of(replay.end, read)

    # ---- loads ----

    def _make_room(self) -> bool:
        """Begin to write the largest load, if it or all together have become too large. False if it must wait: then no
        more may be read."""
        if self._writing is not None:
            return True
        loads = [(load.resident_bytes, load, replay) for replay in self._replays.values() if (load := replay.load)]
        if loads:
            largest, load, replay = max(loads, key=itemgetter(0))
            if largest >= _LARGEST_LOAD or sum(size for size, _, _ in loads) >= _LARGEST_LOADS:
                if load.must_wait:
                    return False
                self._begin_to_write(replay)
        return True

    def _begin_to_write(self, replay: Replay[Stored]) -> None:
        assert replay.load is not None
        self._writing = replay, replay.hosted.state_manager.write_load(replay.store, replay.load, replay.position)

    def _write(self, slice_s: float) -> bool:
        """Go on writing a load; records wait meanwhile, so that its offset stays that of all that it has."""
        assert self._writing is not None
        clock, (replay, steps) = self._clock.monotonic_s, self._writing
        until_s = clock() + slice_s
        for _ in steps:
            if clock() >= until_s:
                return True
        self._writing = None
        replay.events.restored(replay.position, replay.progress.total)
        return True

    def _abandon(self, replay: Replay[Stored]) -> None:
        """What its load has gathered is restored again, or nobody needs it."""
        if self._writing is not None and self._writing[0] is replay:
            self._writing = None
        replay.load = None
        replay.events.suspended()

    def _finished(self) -> list[TopicPartition]:
        """Those that were read up to their ends, with all written."""
        if self._writing is not None:
            return []
        position = self._consumer().position
        reached = [tp for tp, replay in self._replays.items() if position(tp) >= replay.end]
        for tp in reached:
            replay = self._replays[tp]
            if replay.load is not None:
                self._begin_to_write(replay)
                replay.load = None
                return []
        return reached

    def _end(self, tp: TopicPartition) -> Replay[Stored]:
        replay = self._replays.pop(tp)
        self._tell_end(replay)
        return replay

    def _tell_end(self, replay: Replay[Stored]) -> None:
        replay.events.end()
        took_s, total = replay.progress.took_s(self._clock.monotonic_s()), replay.progress.total
        self._log.info(
            "store restored",
            task=str(replay.hosted.id), store=replay.store, offset=replay.position, records=total,
            seconds=round(took_s, 1), records_per_s=round(total / took_s) if took_s > 0 else None,
        )  # fmt: skip

    # ---- progress ----

    def _tell(self) -> None:
        now_s = self._clock.monotonic_s()
        self._tell_at_s = now_s + _TELL_EVERY_S
        for tp, replay in self._replays.items():
            if replay.caught_up:
                continue
            rate = replay.progress.rate(now_s)
            self._log.info(
                "still restoring store",
                task=str(replay.hosted.id), store=replay.store, topic=tp.topic, records_left=replay.left,
                records_per_s=round(rate), seconds_left=round(replay.left / rate) if rate else None,
            )  # fmt: skip

    def progress(self, hosted: Stored) -> RestoreFigures:
        """How far the stores of ``hosted`` have come."""
        left = sum(replay.left for replay in self._replays.values() if replay.hosted is hosted)
        known = self._progress.get(hosted.id)
        if known is None:
            return RestoreFigures()
        restores = self._restores(hosted)
        return RestoreFigures(left, known.total, known.rate(self._clock.monotonic_s()) if restores else 0.0)

    def forget(self, hosted: Stored) -> None:
        """Read no more for ``hosted``, which is about to be closed; what was written of it is on disk."""
        self._progress.pop(hosted.id, None)
        if self._restores(hosted):
            for replay in self._replays.values():
                if replay.hosted is hosted:
                    self._abandon(replay)
            self._replays = {tp: replay for tp, replay in self._replays.items() if replay.hosted is not hosted}
            self._assign()

    def close(self) -> None:
        """Close the consumer; what was restored is on disk."""
        replays, self._replays = self._replays, {}
        try:
            for replay in replays.values():
                self._abandon(replay)
        finally:
            if self._made is not None:
                self._made.close()


def _load(hosted: Stored, store: str, position: int, end: int) -> BulkLoad | None:
    return hosted.state_manager.bulk_load(store, position) if end - position >= _WORTH_A_LOAD else None


def _in_front_of(end: int, batch: RecordBatch) -> RecordBatch:
    """What of ``batch`` is to be restored."""
    if batch.offsets[-1] < end:
        return batch
    count = sum(offset < end for offset in batch.offsets)
    return RecordBatch(
        batch.partition, batch.keys[:count], batch.values[:count], batch.timestamps[:count], batch.offsets[:count],
        None if batch.headers is None else batch.headers[:count],
    )  # fmt: skip
