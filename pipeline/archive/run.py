"""``penstock archive``: Spark's workers read topics and write files; the driver commits a manifest a batch and topic.

Spark schedules and repeats the tasks. The records do not pass through its JVM (docs/decisions/0035-archive.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.pipeline.archive.batches import Batch, Tasks, check_ids, commit, next_ranges, parts_of, writer_of
from penstock.pipeline.archive.cleaning import KEPT_MS, clean_outdated
from penstock.pipeline.archive.manifest import Span
from penstock.pipeline.archive.opening import ArchiveTask, OpenRun, look, now_ms
from penstock.pipeline.archive.plan import Offsets, check_lost, where_to_start
from penstock.pipeline.archive.topic_log import TopicLog


class ArchiveRun:
    """The batches of one run. ``report`` is called after each; ``wait`` waits for a number of seconds."""

    def __init__(
        self,
        task: ArchiveTask,
        opened: OpenRun,
        tasks: Tasks,
        report: Callable[[Batch], None],
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._task = task
        self._opened = opened
        self._tasks = tasks
        self._report = report
        self._wait = wait
        self._cleaned_ms = now_ms()

    def run(self) -> None:
        """Archive until all is archived that was there at the beginning; continuously if the task has ``every_s``.
        Raises StreamsError: what is committed by then stays, and the next run continues there."""
        every = self._task.every_s
        while True:
            began = time.monotonic()
            self._catch_up()
            if every is None:
                return
            self._clean_each_day()
            self._wait(max(0.0, every - (time.monotonic() - began)))

    def _clean_each_day(self) -> None:
        """Do what the begin of a run does: this one may last for months."""
        if now_ms() - self._cleaned_ms >= KEPT_MS:
            self._cleaned_ms = now_ms()
            for log in self._opened.logs.values():
                clean_outdated(log.objects, log.archived)

    def _catch_up(self) -> None:
        ends = self._look()
        while ranges := next_ranges(self._opened.begins, ends, self._task.records_per_commit):
            began = time.monotonic()
            try:
                written = self._tasks.play(writer_of(self._task, self._opened), parts_of(ranges, self._tasks.at_once))
            except StreamsError:
                self._look()  # raises what is the cause, if that is known
                raise
            self._report(commit(self._task, self._opened, ranges, written, time.monotonic() - began))

    def _look(self) -> dict[TopicPartition, int]:
        """Returns the ends of all partitions now. Raises StreamsError if a topic cannot be continued."""
        now, ends = look(self._task.clients, self._task.topics), dict[TopicPartition, int]()
        check_ids(self._opened, now.ids)
        for topic, log in self._opened.logs.items():
            check_lost(topic, where_to_start(log.archived, now.offsets[topic]).lost, accepted=False)
            _note_begins(log, self._opened.run, now.offsets[topic])
            for number, offsets in now.offsets[topic].items():
                # A partition that was added meanwhile is archived from its first offset.
                self._opened.begins.setdefault(TopicPartition(topic, number), offsets.begin)
                ends[TopicPartition(topic, number)] = offsets.end
        return ends


def _note_begins(log: TopicLog, run: str, kafka: Offsets) -> None:
    """Note the first offset of partitions of which nothing is archived yet: what Kafka deletes from now on is lost."""
    new = [Span(number, it.begin, it.begin) for number, it in kafka.items() if number not in log.archived.partitions]
    if new:
        log.commit(run, now_ms(), sorted(new, key=lambda span: span.partition), [])
