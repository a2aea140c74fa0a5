"""Keeps standbys up to date with their changelogs."""

from __future__ import annotations

from collections.abc import Callable

from penstock.actors.checkpoints.fetching import CheckpointFetching
from penstock.actors.clock import Clock
from penstock.actors.restore.replays import Replay, Replays
from penstock.actors.restore.restore_events import RestoreEvents
from penstock.actors.restore.restore_starts import RestoreStarts
from penstock.actors.standbys.standby_events import StandbyEvents
from penstock.actors.status import StandbyStatus
from penstock.actors.task_host.standby_task import StandbyTask
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.log import logger
from penstock.common.standby_listener import StandbyUpdateListener, SuspendReason
from penstock.kafka.contracts import Admin, RecordConsumer

_LAG_KNOWN_S = 60.0
"""Seconds after the last answer about commits for which a held standby reports its lag."""


class Following:
    """All standbys of an actor. Their replays continue after the end that the changelogs had at the beginning. Stores
    that are held are followed only as far as the active task has committed."""

    def __init__(
        self,
        make_consumer: Callable[[], RecordConsumer],
        admin: Admin,
        clock: Clock,
        exactly_once: bool,
        fetching: CheckpointFetching,
        listener: StandbyUpdateListener | None = None,
    ) -> None:
        log = logger(__name__).bind(standby=True)
        self._clock = clock
        self._listener = listener
        self._replays = Replays[StandbyTask](make_consumer, clock, log, self._events_of)
        self._starts = RestoreStarts(admin, clock, exactly_once, log, fetching)
        self._last_ends: dict[TopicPartition, int] = {}  # the last known ends of the changelogs
        self._ends: dict[TopicPartition, int] = {}  # the ends up to ten seconds ago
        self._as_of_ms: dict[TaskId, int] = {}  # the standbys that have these ends have all commits before this time

    def _events_of(self, standby: StandbyTask, store: str, tp: TopicPartition) -> RestoreEvents:
        if self._listener is None:
            return RestoreEvents(None, tp, store)

        def end() -> int | None:
            replay = self._replays.by_partition.get(tp)
            return None if replay is None else self._end_of(replay)

        return StandbyEvents(self._listener, tp, store, standby.id, end)

    @property
    def active(self) -> bool:
        """True if anything is being followed."""
        return bool(self._replays.by_partition)

    def begin(self, standby: StandbyTask) -> bool:
        """Follow the changelogs of ``standby``. Returns False if no commit has reported yet how far, or if it waits for
        a checkpoint. May be called again, also after an error."""
        if not standby.changelogs:
            return True
        starts, unreported = self._starts.find(standby, self._replays.consumer), standby.unreported
        if any(start.partition in unreported and start.position < start.logged for start in starts):
            return False
        if self._starts.waits_for_checkpoint(standby, starts):
            return False
        for store, tp, position, end, *_ in starts:
            # Records after the first end are taken at once, so that they are not fetched twice.
            self._replays.add(standby, store, tp, position, end, followed=store not in standby.held)
        self._replays.assign()
        return True

    def step(self) -> bool:
        """Follow for one slice. Returns True if there were records."""
        busy, reached = self._replays.step()
        for replay in reached:
            if not replay.caught_up:
                replay.caught_up = True
                self._replays.log_end(replay)
            if not replay.followed:
                replay.waits = True
                self._replays.consumer.pause([replay.partition])
        if self._replays.log_if_due():
            self._note_commits()
        return busy

    @property
    def overtaken(self) -> dict[StandbyTask, set[TopicPartition]]:
        """Changelogs that have deleted records before they were read: see :meth:`begin_again`."""
        found: dict[StandbyTask, set[TopicPartition]] = {}
        for tp in self._replays.overtaken:
            found.setdefault(self._replays.by_partition[tp].task, set()).add(tp)
        return found

    def begin_again(self, changelogs: set[TopicPartition]) -> None:
        """Restore the wiped stores of these changelogs from the beginning: they have deleted records before they were
        read. May be called again after an error."""
        # The changelog must have the end: records before it may be gathered until the replay has reached it.
        ends = self._replays.consumer.fetch_end_offsets(changelogs)
        for tp, end in ends.items():
            replay = self._replays.by_partition[tp]
            if not replay.followed:
                limit = replay.task.limits.get(tp, 0)
                # The limit of a changelog may be that of the deleted one; for a source topic, it is what was processed.
                ends[tp] = limit if replay.store in replay.task.source_changelogs else min(end, limit)
        self._resume(changelogs)
        self._replays.begin_again(ends)
        for tp in changelogs:  # it may be another changelog
            self._last_ends.pop(tp, None)

    def committed(self, standby: StandbyTask) -> None:
        """Note that the active task has committed, or that an earlier commit became known."""
        limits = standby.limits
        for tp, replay in self._replays.by_partition.items():
            if replay.task is standby and not replay.followed and (end := limits.get(tp, 0)) > replay.end:
                replay.end = end
                if tp in self._replays.overtaken:
                    continue  # the changelog is read again
                if replay.thrown_away is not None:
                    # Not to the position of the replay: the log may begin after it now, although nothing is lost.
                    self._replays.consumer.seek(tp, replay.thrown_away)
                    replay.thrown_away = None
                self._resume({tp})

    def _resume(self, partitions: set[TopicPartition]) -> None:
        waiting = [replay for tp, replay in self._replays.by_partition.items() if tp in partitions and replay.waits]
        if waiting:
            self._replays.consumer.resume([replay.partition for replay in waiting])
            for replay in waiting:
                replay.waits = False

    def _note_commits(self) -> None:
        consumer, ends, replays = self._replays.consumer, self._ends, self._replays.by_partition
        lacking = {
            replay.task.id
            for tp, replay in replays.items()
            if not replay.caught_up
            or tp in self._replays.overtaken
            or tp not in ends
            or consumer.position(tp) < ends[tp]
        }
        for standby in {replay.task for replay in replays.values()}:
            if standby.id not in lacking:
                # A changelog that is always written is never read to its end, but to the end it had a while ago.
                standby.directory.note_commit(self._as_of_ms[standby.id])
        known = {tp: self._end_of(replay) for tp, replay in replays.items()}
        self._ends = {tp: end for tp, end in known.items() if end is not None}
        now_ms = self._clock.wall_ms()
        self._as_of_ms = {}
        for standby in {replay.task for replay in replays.values()}:
            # The limit of a held standby does not cover commits since the last answer, which may have deletions.
            heard = standby.heard if standby.held else None
            self._as_of_ms[standby.id] = now_ms if heard is None else min(now_ms, heard.wall_ms)

    def knows(self, standby: StandbyTask) -> bool:
        """Returns False while it is unknown how much ``standby`` lacks: before the ends of its changelogs are known,
        while it waits to begin again, and while no broker answers how far the active task has committed."""
        if standby.held and standby.heard is not None:
            silent_s = self._clock.monotonic_s() - standby.heard.monotonic_s
            if silent_s > _LAG_KNOWN_S:
                return False
        replays = self._replays_of(standby)
        if any(self._lacks(replay) is None for replay in replays):
            return False
        return bool(replays) or not standby.changelogs

    def status(self, standby: StandbyTask) -> StandbyStatus:
        """Returns how far the stores of ``standby`` are restored."""
        return StandbyStatus(standby.id, self._lag(standby), self._replays.progress(standby).total)

    def _lag(self, standby: StandbyTask) -> int:
        return sum(self._lacks(replay) or 0 for replay in self._replays_of(standby))

    def _replays_of(self, standby: StandbyTask) -> list[Replay[StandbyTask]]:
        return [replay for replay in self._replays.by_partition.values() if replay.task is standby]

    def _lacks(self, replay: Replay[StandbyTask]) -> int | None:
        """Returns the number of offsets that the replay has not read; None if that is unknown."""
        tp = replay.partition
        if tp in self._replays.overtaken:
            return None
        end = self._end_of(replay)
        if end is None:  # after an error of its leader the last one counts, so that the standby can still be promoted
            end = self._last_ends.get(tp)
        return None if end is None else max(0, end - max(replay.position, self._replays.consumer.position(tp)))

    def _end_of(self, replay: Replay[StandbyTask]) -> int | None:
        """Returns the offset up to which there is something to follow; None before the first fetch, and after an error
        of the leader until the next fetch."""
        if not replay.has_no_end:
            return replay.end
        end = self._replays.consumer.end_offset(replay.partition)
        if end is not None:
            self._last_ends[replay.partition] = end
        return end

    def forget(self, standby: StandbyTask, reason: SuspendReason) -> None:
        """Stop following ``standby``; the written rows are on disk."""
        # A client remembers that a partition is paused, and the standby may return.
        replays = self._replays_of(standby)
        self._resume({replay.partition for replay in replays})
        self._replays.forget(standby, reason)
        for replay in replays:
            self._last_ends.pop(replay.partition, None)

    def close(self) -> None:
        """Close the consumer; the restored rows are on disk."""
        self._replays.close()
