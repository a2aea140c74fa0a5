"""Keeping standbys up to their changelogs, as long as they are here."""

from __future__ import annotations

from collections.abc import Callable

from penstock.actors.clock import Clock
from penstock.actors.messages import StandbyStatus
from penstock.actors.replays import Replay, Replays
from penstock.actors.restore_events import RestoreEvents
from penstock.actors.restore_starts import RestoreStarts
from penstock.actors.standby_events import StandbyEvents
from penstock.actors.standby_task import StandbyTask
from penstock.common.ids import TopicPartition
from penstock.common.log import logger
from penstock.common.standby_listener import StandbyUpdateListener, SuspendReason
from penstock.kafka.contracts import Admin, RecordConsumer


class Following:
    """All standbys of an actor. Their replays go on when the stores have what was there at the beginning, but for
    source topics: those are followed as far as the active task has processed them."""

    def __init__(
        self,
        make_consumer: Callable[[], RecordConsumer],
        admin: Admin,
        clock: Clock,
        exactly_once: bool,
        listener: StandbyUpdateListener | None = None,
    ) -> None:
        log = logger(__name__).bind(standby=True)
        self._clock = clock
        self._listener = listener
        self._replays = Replays[StandbyTask](make_consumer, clock, log, self._events_of)
        self._starts = RestoreStarts(admin, clock, exactly_once, log)
        self._ends: dict[TopicPartition, int] = {}  # of the changelogs, at this time
        self._ends_at_ms = 0
        self._held: set[TopicPartition] = set()
        """The source topics that are paused: all that the active task has processed of them is here."""

    def _events_of(self, standby: StandbyTask, store: str, tp: TopicPartition) -> RestoreEvents:
        if self._listener is None:
            return RestoreEvents(None, tp, store)

        def end() -> int | None:
            replay = self._replays.by_partition.get(tp)
            return None if replay is None else self._end_of(replay)

        return StandbyEvents(self._listener, tp, store, standby.id, end)

    @property
    def active(self) -> bool:
        """Whether anything is being followed."""
        return bool(self._replays.by_partition)

    def begin(self, standby: StandbyTask) -> None:
        """Follow its changelogs. May be called again after an error."""
        if not standby.changelogs:
            return
        for store, tp, position, end, _ in self._starts.find(standby, self._replays.consumer):
            # What comes behind the first end is fetched once: nobody reads it again.
            self._replays.add(standby, store, tp, position, end, followed=store not in standby.source_changelogs)
        self._replays.assign()

    def step(self) -> bool:
        """Follow for one slice; whether there were records."""
        busy, reached = self._replays.step()
        for replay in reached:
            if not replay.caught_up:
                replay.caught_up = True
                self._replays.tell_end(replay)
            if replay.of_source and replay.partition not in self._held:
                self._held.add(replay.partition)
                self._replays.consumer.pause([replay.partition])
        if self._replays.tell_if_due():
            self._note_commits()
        return busy

    @property
    def overtaken(self) -> bool:
        """Whether a changelog has deleted records before they were read: see :meth:`begin_again`."""
        return bool(self._replays.overtaken)

    def begin_again(self) -> None:
        """Wipe the stores whose changelogs have deleted records before they were read, and restore them from the
        beginning. May be called again after an error."""
        replays = self._replays.by_partition
        followed = {tp for tp in self._replays.overtaken & replays.keys() if replays[tp].followed}
        for tp, end in self._replays.consumer.fetch_end_offsets(followed).items():
            # Without an end it would be gathered, and never be enough to be written.
            replays[tp].end, replays[tp].caught_up = end, False
        self._go_on(self._replays.overtaken & replays.keys())
        self._replays.begin_again()

    def processed(self, standby: StandbyTask) -> None:
        """The active task has processed more of its source topics."""
        for tp, replay in self._replays.by_partition.items():
            end = standby.source_ends.get(tp, 0)
            if replay.task is standby and replay.of_source and end > replay.end:
                replay.end = end
                # What was fetched behind the old end was thrown away.
                self._replays.consumer.seek(tp, replay.position)
                self._go_on({tp})

    def _go_on(self, partitions: set[TopicPartition]) -> None:
        if paused := partitions & self._held:
            self._replays.consumer.resume(paused)
            self._held -= paused

    def _note_commits(self) -> None:
        consumer, ends, replays = self._replays.consumer, self._ends, self._replays.by_partition
        lacking = {
            replay.task.id
            for tp, replay in replays.items()
            if not replay.caught_up or tp not in ends or consumer.position(tp) < ends[tp]
        }
        for standby in {replay.task for replay in replays.values()}:
            if standby.id not in lacking:
                # What is written all the time is never read to its end, but to where that was a while ago.
                standby.directory.note_commit(self._ends_at_ms)
        known = {tp: self._end_of(replay) for tp, replay in replays.items()}
        self._ends = {tp: end for tp, end in known.items() if end is not None}
        self._ends_at_ms = self._clock.wall_ms()

    def knows(self, standby: StandbyTask) -> bool:
        """Whether it is known what ``standby`` lacks."""
        return self._replays.has(standby) or not standby.changelogs

    def status(self, standby: StandbyTask) -> StandbyStatus:
        """How far the stores of ``standby`` have come."""
        return StandbyStatus(standby.id, self._lag(standby), self._replays.progress(standby).total)

    def _lag(self, standby: StandbyTask) -> int:
        consumer, lag = self._replays.consumer, 0
        for tp, replay in self._replays.by_partition.items():
            if replay.task is standby:
                end = self._end_of(replay)
                position = max(replay.position, consumer.position(tp))
                lag += max(0, end - position) if end is not None else 0
        return lag

    def _end_of(self, replay: Replay[StandbyTask]) -> int | None:
        """How far there is something to follow; None before the first fetch."""
        return self._replays.consumer.end_offset(replay.partition) if replay.goes_on else replay.end

    def forget(self, standby: StandbyTask, reason: SuspendReason) -> None:
        """Follow it no more; what was written of it is on disk."""
        # A client remembers that a partition is paused, and the standby may come back.
        self._go_on({tp for tp, replay in self._replays.by_partition.items() if replay.task is standby})
        self._replays.forget(standby, reason)

    def close(self) -> None:
        """Close the consumer; what was restored is on disk."""
        self._replays.close()
