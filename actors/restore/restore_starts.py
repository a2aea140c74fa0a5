"""Finds the positions from which stores must be restored, and the stores that must be wiped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from structlog.stdlib import BoundLogger

from penstock.actors.checkpoints.fetching import CheckpointFetching
from penstock.actors.checkpoints.task_state import topics_of
from penstock.actors.checkpoints.worth import LocalChangelog
from penstock.actors.clock import Clock
from penstock.actors.task_host.stored_task import StoredTask
from penstock.common.ids import TopicPartition
from penstock.kafka.contracts import Admin, RecordConsumer


class RestoreStart(NamedTuple):
    """A store lacks the records of its changelog from ``position`` up to ``end``. ``logged``: the end of its changelog;
    for a source topic, the end of the processed records. ``from_beginning``: the store is empty, and is restored from
    the beginning. ``beginning``: the first offset that the changelog still has."""

    store: str
    partition: TopicPartition
    position: int
    end: int
    logged: int
    from_beginning: bool
    beginning: int

    @property
    def lacks_records(self) -> bool:
        """True if the store lacks records that its changelog has."""
        return self.position < self.logged


class RestoreStarts:
    """``exactly_once``: changelogs may end with a transaction that is still open."""

    def __init__(
        self, admin: Admin, clock: Clock, exactly_once: bool, log: BoundLogger, fetching: CheckpointFetching
    ) -> None:
        self._admin = admin
        self._clock = clock
        self._exactly_once = exactly_once
        self._log = log
        self._fetching = fetching

    def note_topics(self, task: StoredTask) -> None:
        """Note the ids of the topics of ``task``, if there are checkpoints. Must precede its restore: its rows belong
        to these topics, or to ones of the same names that were deleted before."""
        if self._fetching.enabled:
            task.topic_ids = self._admin.topic_ids(topics_of(task))

    def waits_for_checkpoint(self, task: StoredTask, starts: Sequence[RestoreStart]) -> bool:
        """Returns True if a checkpoint is looked for, by which ``task`` may lack less: it is not restored meanwhile. A
        later call returns False. May be called again after an error."""
        if not self._fetching.enabled:
            return False
        if not task.topic_ids:
            self.note_topics(task)
        keeps = self._admin.delete_retention_ms({start.partition.topic for start in starts if start.lacks_records})
        local = {
            start.store: LocalChangelog(start.position, start.beginning, start.logged, keeps.get(start.partition.topic))
            for start in starts
        }
        return self._fetching.begin(task, local)

    def log_ends(self, changelogs: Collection[TopicPartition], consumer: RecordConsumer) -> dict[TopicPartition, int]:
        """Returns the ends of ``changelogs`` as of now."""
        # A transaction of the last owner may be committed, although its marker is not yet in all partitions. If a
        # changelog lacks it, the consumer waits for the end of the transaction.
        ask = self._admin.high_watermarks if self._exactly_once else consumer.fetch_end_offsets
        return dict(ask(changelogs))

    def find(self, task: StoredTask, consumer: RecordConsumer) -> list[RestoreStart]:
        """Returns a start for every store of ``task``, also if it lacks nothing. May be called again after an error.

        A store is wiped and restored from the beginning if its changelog (or source topic) no longer has its offset, or
        if the store is older than its changelog keeps deletions: deleted keys would return.
        """
        self.note_topics(task)
        partitions = set(task.changelogs.values())
        beginnings = consumer.fetch_beginning_offsets(partitions)
        log_ends = self.log_ends(partitions, consumer)
        ends = log_ends | dict(task.limits)
        # A store may be older than its changelog keeps deletions, even if it must not have all of the changelog yet.
        of_sources = {tp for store, tp in task.changelogs.items() if store in task.source_changelogs}
        logged = {tp: ends[tp] if tp in of_sources else end for tp, end in log_ends.items()}
        remembered = {store: task.state_manager.changelog_offset(store) for store in task.changelogs}
        begun = {tp: start for store, tp in task.changelogs.items() if (start := remembered[store]) is not None}
        behind = {tp.topic for tp, start in begun.items() if start < logged[tp]}
        retentions = self._admin.delete_retention_ms(behind)
        age_ms = task.directory.age_ms(self._clock.wall_ms())
        starts = []
        for store, tp in task.changelogs.items():
            start, begin, end = remembered[store], beginnings[tp], ends[tp]
            wrong = None
            if start is None:
                pass
            elif not begin <= start <= log_ends[tp]:
                wrong = "the store does not belong to its changelog"
            elif tp.topic in retentions and age_ms is not None and age_ms > retentions[tp.topic]:
                wrong = "the store is older than its changelog keeps deletions (delete.retention.ms)"
            if wrong is not None:
                self._log.warning(
                    "store wiped, restoring from the beginning",
                    why=wrong, task=str(task.id), store=store, topic=tp.topic, offset=start, beginning=begin, end=end,
                    age_ms=age_ms, delete_retention_ms=retentions.get(tp.topic),
                )  # fmt: skip
                task.state_manager.wipe(store)
                start = None
            position = begin if start is None else start
            starts.append(RestoreStart(store, tp, position, end, logged[tp], start is None, begin))
        if not any(start.position < start.logged for start in starts if not start.from_beginning):
            # All stores are up to date. After a crash their age counts from now, not from a commit long ago, for which
            # they would be wiped again.
            task.directory.note_commit(self._clock.wall_ms())
        return starts
