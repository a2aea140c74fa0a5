"""Bringing stores up to their changelogs, a slice at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.actors.clock import Clock
from penstock.actors.hosted_task import HostedTask
from penstock.common.ids import TopicPartition
from penstock.common.log import logger
from penstock.kafka.contracts import Admin, RecordConsumer

_SLICE_RECORDS = 500


@dataclass
class _Replay:
    """One store that is read from ``position`` up to ``end``."""

    hosted: HostedTask
    store: str
    position: int
    end: int


class Restoration:
    """All stores of an actor that are being restored, read through a consumer that is made when needed."""

    def __init__(
        self, make_consumer: Callable[[], RecordConsumer], admin: Admin, clock: Clock, exactly_once: bool = False
    ) -> None:
        self._exactly_once = exactly_once
        self._make_consumer = make_consumer
        self._admin = admin
        self._clock = clock
        self._log = logger(__name__)
        self._overtaken: set[TopicPartition] = set()
        self._made: RecordConsumer | None = None
        self._replays: dict[TopicPartition, _Replay] = {}

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

    def begin(self, hosted: HostedTask) -> bool:
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
        ends.update({tp: hosted.starts[tp].offset for store, tp in hosted.changelogs.items()
                     if store in hosted.source_changelogs})  # fmt: skip
        starts = {store: hosted.state_manager.changelog_offset(store) for store in hosted.changelogs}
        behind = {tp.topic for store, tp in hosted.changelogs.items() if (starts[store] or ends[tp]) < ends[tp]}
        retentions = self._admin.delete_retention_ms(behind)
        age_ms = hosted.directory.age_ms(self._clock.wall_ms())
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
            if position < end:
                self._replays[tp] = _Replay(hosted, store, position, end)
            elif start is None and 0 < begin == end and store not in hosted.source_changelogs:
                self._log.warning(
                    "store starts empty: its changelog has offsets, but no record any more",
                    why="the broker deletes what is older, by event time, than the topic's retention.ms",
                    task=str(hosted.id), store=store, topic=tp.topic, beginning=begin, end=end,
                )  # fmt: skip
        self._assign()
        return self._restores(hosted)

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
            replay.hosted.state_manager.wipe(replay.store)
            replay.position = beginning
            consumer.seek(tp, beginning)
        self._overtaken.clear()

    def _restores(self, hosted: HostedTask) -> bool:
        return any(replay.hosted is hosted for replay in self._replays.values())

    def _assign(self) -> None:
        if self._made is not None:
            self._made.assign({tp: replay.position for tp, replay in self._replays.items()})

    def step(self) -> tuple[bool, list[HostedTask]]:
        """Restore one slice; whether there were records, and the tasks that now lack nothing."""
        consumer = self._consumer()
        batches = consumer.poll(_SLICE_RECORDS, 0)
        for batch in batches:
            replay = self._replays.get(batch.partition)
            if replay is None:
                continue
            count = sum(offset < replay.end for offset in batch.offsets)
            if count:
                replay.position = batch.offsets[count - 1] + 1
                rows = (batch.keys[:count], batch.values[:count], batch.timestamps[:count])
                headers = None if batch.headers is None else batch.headers[:count]
                replay.hosted.state_manager.restore(replay.store, *rows, replay.position, headers)
        self._overtaken.update(consumer.lost_positions())
        finished = [tp for tp, replay in self._replays.items() if consumer.position(tp) >= replay.end]
        if not finished:
            return bool(batches), []
        ready = [self._replays.pop(tp).hosted for tp in finished]
        self._assign()
        return True, [hosted for hosted in dict.fromkeys(ready) if not self._restores(hosted)]

    def remaining(self, hosted: HostedTask) -> int:
        """How many offsets the stores of ``hosted`` are behind."""
        return sum(max(0, r.end - r.position) for r in self._replays.values() if r.hosted is hosted)

    def forget(self, hosted: HostedTask) -> None:
        """Read no more for ``hosted``, which is about to be closed; what is restored of it is on disk."""
        if self._restores(hosted):
            self._replays = {tp: replay for tp, replay in self._replays.items() if replay.hosted is not hosted}
            self._assign()

    def close(self) -> None:
        """Close the consumer."""
        if self._made is not None:
            self._made.close()
