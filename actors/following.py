"""Keeping standbys up to their changelogs, as long as they are here."""

from __future__ import annotations

import sys
from collections.abc import Callable

from typing_extensions import override

from penstock.actors.clock import Clock
from penstock.actors.messages import StandbyStatus
from penstock.actors.restoration import Replay, Restoration
from penstock.actors.restore_events import RestoreEvents
from penstock.actors.standby_events import StandbyEvents
from penstock.actors.standby_task import StandbyTask
from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from penstock.common.standby_listener import StandbyUpdateListener, SuspendReason
from penstock.kafka.contracts import Admin, RecordConsumer

_FOR_EVER = sys.maxsize


class Following(Restoration[StandbyTask]):
    """A restore that goes on when the stores have what was there at its beginning: each replay then has no end, but for
    source topics, which are followed as far as the active task has processed them."""

    follows = True

    def __init__(
        self,
        make_consumer: Callable[[], RecordConsumer],
        admin: Admin,
        clock: Clock,
        exactly_once: bool,
        listener: StandbyUpdateListener | None = None,
    ) -> None:
        super().__init__(make_consumer, admin, clock, None, exactly_once)
        self._hears = listener
        self._reason = SuspendReason.MIGRATED
        """Why a standby that is forgotten now is followed no more."""
        self._log = self._log.bind(standby=True)
        self._ends: dict[TopicPartition, int] = {}  # of the changelogs, at this time
        self._ends_at_ms = 0
        self._held: set[TopicPartition] = set()
        """The source topics that are paused: all that the active task has processed of them is here."""

    @override
    def _events(self, hosted: StandbyTask, store: str, tp: TopicPartition) -> RestoreEvents:
        if self._hears is None:
            return super()._events(hosted, store, tp)

        def end() -> int | None:
            replay = self._replays.get(tp)
            return None if replay is None else self._end_of(tp, replay)

        return StandbyEvents(self._hears, tp, store, hosted.id, end, lambda: self._reason)

    @override
    def _wanted(self, replay: Replay[StandbyTask], read: RecordBatch) -> RecordBatch:
        # What follows the first end is fetched once: nobody reads it again.
        return super()._wanted(replay, read) if replay.of_source else read

    @override
    def _finished(self) -> list[TopicPartition]:
        for tp in super()._finished():
            replay = self._replays[tp]
            if not replay.caught_up:
                replay.caught_up = True
                self._tell_end(replay)
            if not replay.of_source:
                replay.end = _FOR_EVER
            elif tp not in self._held:
                self._held.add(tp)
                self._consumer().pause([tp])
        return []

    @override
    def begin_again(self) -> None:
        followed = {tp for tp in self._overtaken & self._replays.keys() if not self._replays[tp].of_source}
        for tp, end in self._consumer().fetch_end_offsets(followed).items():
            # Without an end it would be gathered, and never be enough to be written.
            self._replays[tp].end, self._replays[tp].caught_up = end, False
        self._go_on(self._overtaken & self._replays.keys())
        super().begin_again()

    def processed(self, standby: StandbyTask) -> None:
        """The active task has processed more of its source topics."""
        for tp, replay in self._replays.items():
            end = standby.source_ends.get(tp, 0)
            if replay.hosted is standby and replay.of_source and end > replay.end:
                replay.end = end
                # What was fetched behind the old end was thrown away.
                self._consumer().seek(tp, replay.position)
                self._go_on({tp})

    def _go_on(self, partitions: set[TopicPartition]) -> None:
        if paused := partitions & self._held:
            self._consumer().resume(paused)
            self._held -= paused

    @override
    def forget(self, hosted: StandbyTask, reason: SuspendReason = SuspendReason.MIGRATED) -> None:
        self._reason = reason
        # A client remembers that a partition is paused, and the standby may come back.
        self._go_on({tp for tp, replay in self._replays.items() if replay.hosted is hosted})
        super().forget(hosted)
        self._reason = SuspendReason.MIGRATED

    @override
    def _tell(self) -> None:
        super()._tell()
        consumer, ends = self._consumer(), self._ends
        lacking = {
            replay.hosted.id
            for tp, replay in self._replays.items()
            if not replay.caught_up or tp not in ends or consumer.position(tp) < ends[tp]
        }
        for standby in {replay.hosted for replay in self._replays.values()}:
            if standby.id not in lacking:
                # What is written all the time is never read to its end, but to where that was a while ago.
                standby.directory.note_commit(self._ends_at_ms)
        known = {tp: self._end_of(tp, replay) for tp, replay in self._replays.items()}
        self._ends = {tp: end for tp, end in known.items() if end is not None}
        self._ends_at_ms = self._clock.wall_ms()

    def knows(self, standby: StandbyTask) -> bool:
        """Whether it is known what ``standby`` lacks."""
        return self._restores(standby) or not standby.changelogs

    def status(self, standby: StandbyTask) -> StandbyStatus:
        """How far the stores of ``standby`` have come."""
        return StandbyStatus(standby.id, self._lag(standby), self.progress(standby).total)

    def _lag(self, standby: StandbyTask) -> int:
        consumer, lag = self._consumer(), 0
        for tp, replay in self._replays.items():
            if replay.hosted is standby:
                end = self._end_of(tp, replay)
                position = max(replay.position, consumer.position(tp))
                lag += max(0, end - position) if end is not None else 0
        return lag

    def _end_of(self, tp: TopicPartition, replay: Replay[StandbyTask]) -> int | None:
        """How far there is something to follow; None before the first fetch."""
        return replay.end if replay.end != _FOR_EVER else self._consumer().end_offset(tp)
