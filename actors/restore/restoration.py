"""Restores the stores of active tasks from their changelogs, before they may process records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.actors.checkpoints.fetching import CheckpointFetching
from penstock.actors.clock import Clock
from penstock.actors.restore.replays import Replays
from penstock.actors.restore.restore_events import RestoreEvents
from penstock.actors.restore.restore_starts import RestoreStarts
from penstock.actors.status import RestoreFigures
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.common.ids import TopicPartition
from penstock.common.log import logger
from penstock.common.restore_listener import StateRestoreListener
from penstock.kafka.contracts import Admin, RecordConsumer


class Restoration:
    """All tasks of an actor that are being restored, through a consumer that is made when needed. Some wait for a
    checkpoint first (``fetching``)."""

    def __init__(
        self,
        make_consumer: Callable[[], RecordConsumer],
        admin: Admin,
        clock: Clock,
        listener: StateRestoreListener | None,
        exactly_once: bool,
        fetching: CheckpointFetching,
    ) -> None:
        self._log = logger(__name__)

        def events_of(task: HostedTask, store: str, tp: TopicPartition) -> RestoreEvents:
            return RestoreEvents(listener, tp, store)

        self._replays = Replays[HostedTask](make_consumer, clock, self._log, events_of)
        self._starts = RestoreStarts(admin, clock, exactly_once, self._log, fetching)
        self.fetching = fetching

    @property
    def active(self) -> bool:
        """True if anything is being restored."""
        return bool(self._replays.by_partition)

    def begin(self, task: HostedTask) -> bool:
        """Find the records that the stores of ``task`` lack. Returns False if they lack none. If it waits for a
        checkpoint, nothing is restored until another call. May be called again after an error."""
        starts = self._starts.find(task, self._replays.consumer) if task.changelogs else []
        if self._starts.waits_for_checkpoint(task, starts):
            return True
        if not starts:
            return False
        for store, tp, position, end, _, from_beginning, _ in starts:
            if position < end:
                self._replays.add(task, store, tp, position, end)
            elif from_beginning and 0 < position == end and store not in task.source_changelogs:
                self._log.warning(
                    "store starts empty: its changelog has offsets, but no record any more",
                    why="the broker deletes what is older, by event time, than the topic's retention.ms",
                    task=str(task.id), store=store, topic=tp.topic, beginning=position, end=end,
                )  # fmt: skip
        self._replays.assign()
        return self._replays.has(task)

    def step(self, alone: bool = False) -> tuple[bool, list[HostedTask]]:
        """Restore for one slice. Returns True if there were records, and the tasks that now lack nothing. ``alone``: no
        task runs that would wait for it."""
        busy, ended = self._replays.step(alone)
        self._replays.log_if_due()
        if not ended:
            return busy, []
        for replay in ended:
            self._replays.end(replay)
        self._replays.assign()
        tasks = dict.fromkeys(replay.task for replay in ended)
        return True, [task for task in tasks if not self._replays.has(task)]

    @property
    def overtaken(self) -> bool:
        """True if a changelog has deleted records before they were read: see :meth:`begin_again`."""
        return bool(self._replays.overtaken)

    def begin_again(self) -> None:
        """Restore again, from the beginning, the stores that were wiped because their changelogs had deleted records
        before they were read. They are restored up to the present ends, since a changelog that was created again may
        be shorter. A source topic is restored up to the position at which its task continues; if the topic is shorter
        now, the task continues at its end, as it would after a start. May be called again after an error."""
        replays = self._replays
        for task in {replays.by_partition[tp].task for tp in replays.overtaken}:
            self._starts.note_topics(task)
        ends = self._starts.log_ends(replays.overtaken, replays.consumer)
        for tp, log_end in ends.items():
            task = replays.by_partition[tp].task
            ends[tp] = task.limits.get(tp, log_end)
            if ends[tp] > log_end:
                task.read_on_at(tp, log_end)
                ends[tp] = log_end
        replays.begin_again(ends)

    def progress(self, task: HostedTask) -> RestoreFigures:
        """Returns the progress of the restore of the stores of ``task``."""
        figures = self._replays.progress(task)
        missing = self.fetching.missing(task.id)
        return replace(figures, remaining=missing) if missing else figures

    def forget(self, task: HostedTask) -> None:
        """Read no more for ``task``, which is about to be closed; the written rows are on disk."""
        self.fetching.forget(task.id)
        self._replays.forget(task)

    def close(self) -> None:
        """Close the consumer; the restored rows are on disk."""
        self._replays.close()
