"""Measurements of one actor, over all its tasks. They cost nothing per record: tasks measure themselves."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.actors.commit_stops import CommitStopMeter
from penstock.actors.loop.log_summary import LogSummary, Totals
from penstock.actors.loop.source_reader import SourceReader
from penstock.actors.task_host.task_meters import TaskMeters
from penstock.common.measures import Look, Window
from penstock.common.metric_names import TASK, THREAD, UPDATER, Measured
from penstock.tasks.task_metrics import TaskMetrics

# Kafka Streams' StreamThread.State, by its ordinal.
PARTITIONS_ASSIGNED, RUNNING, PENDING_SHUTDOWN, DEAD = 3, 4, 5, 6


class _Sum:
    """Sum of the meters of tasks, including those that were closed."""

    def __init__(self) -> None:
        self.batches = self.records = self.punctuated = self.punctuations = 0
        self.processing_s = self.punctuating_s = 0.0

    def add(self, meters: TaskMeters, counted: TaskMetrics) -> None:
        self.batches += meters.process.batches
        self.records += meters.process.records
        self.processing_s += meters.process.spent_s
        self.punctuations += meters.punctuate.count
        self.punctuating_s += meters.punctuate.total
        self.punctuated += counted.punctuate_total

    def copy(self) -> _Sum:
        copied = _Sum()
        copied.__dict__.update(self.__dict__)
        return copied


class ThreadMeters:
    """Meters of an actor. ``started_ms``: the time of its start. ``summary``: gets the totals, too."""

    def __init__(self, started_ms: int, summary: LogSummary) -> None:
        self._summary = summary
        self.tasks_created = self.tasks_closed = 0
        self._started_ms = started_ms
        self._closed = _Sum()
        self._windows: dict[str, Window] = {}

    def closed(self, meters: TaskMeters, counted: TaskMetrics) -> None:
        """Counts a task that was closed, with these counters."""
        self.tasks_closed += 1
        self._closed.add(meters, counted)

    def _look(self, name: str, now_s: float, *come_to: float) -> Look:
        return self._windows.setdefault(name, Window()).look(now_s, *come_to)

    def measured(
        self,
        tasks: Iterable[tuple[TaskMeters, TaskMetrics]],
        reader: SourceReader,
        commits: CommitStopMeter,
        accepted: int,
        state: int,
        restore_rate: float,
        now_s: float,
    ) -> Measured:
        """Returns all measurements. ``tasks`` with their counters, *before* the measurements of each are asked for;
        ``accepted``: the number of commits that were accepted."""
        all_tasks, slowest_s, largest, longest_s = self._closed.copy(), 0.0, 0, 0.0
        for meters, counted in tasks:
            all_tasks.add(meters, counted)
            slowest_s, largest = max(slowest_s, meters.process.slowest_s), max(largest, meters.process.largest)
            longest_s = max(longest_s, meters.punctuate.highest)
            meters.process.largest = 0
        self._summary.look(now_s, Totals(all_tasks.records, all_tasks.punctuated, accepted))
        polling = self._windows.setdefault("poll", Window()).look_at(reader.polls, now_s)
        polled = self._windows.setdefault("polled", Window()).look_at(reader.polled, now_s)
        processing = self._look("process", now_s, all_tasks.records, all_tasks.processing_s, slowest_s)
        batches = self._look("batches", now_s, all_tasks.batches, all_tasks.records, largest)
        punctuating = self._look("punctuate", now_s, all_tasks.punctuations, all_tasks.punctuating_s, longest_s)
        punctuated = self._look("punctuated", now_s, all_tasks.punctuated)
        committing = self._look("commit", now_s, accepted, commits.stopped_s)
        return {
            **_timed("poll", polling, polling.rate, reader.polls.count),
            **_timed("process", processing, processing.rate, all_tasks.records),
            **_timed("punctuate", punctuating, punctuated.rate, all_tasks.punctuated),
            (THREAD, "poll-ratio"): polling.per_second,
            (THREAD, "process-ratio"): processing.per_second,
            (THREAD, "punctuate-ratio"): punctuating.per_second,
            (THREAD, "commit-ratio"): committing.per_second,
            (THREAD, "commit-rate"): committing.rate,
            (THREAD, "poll-records-avg"): polled.average,
            (THREAD, "poll-records-max"): polled.highest,
            (THREAD, "process-records-avg"): batches.average,
            (THREAD, "process-records-max"): batches.highest,
            (THREAD, "task-created-rate"): self._look("created", now_s, self.tasks_created).rate,
            (THREAD, "task-created-total"): self.tasks_created,
            (THREAD, "task-closed-rate"): self._look("closed", now_s, self.tasks_closed).rate,
            (THREAD, "task-closed-total"): self.tasks_closed,
            (THREAD, "thread-start-time"): self._started_ms,
            (THREAD, "thread-state"): state,
            (UPDATER, "restore-records-rate"): restore_rate,
        }


def _timed(name: str, seen: Look, rate: float, total: int) -> Measured:
    return {
        (THREAD, f"{name}-rate"): rate,
        (THREAD, f"{name}-total"): total,
        (THREAD, f"{name}-latency-avg"): 1000 * seen.average,
        (THREAD, f"{name}-latency-max"): 1000 * seen.highest,
    }


def add_shares(tasks: Iterable[Measured]) -> None:
    """Adds to each task of a thread its share of the time that all of them spend on records."""
    tasks = [task for task in tasks if task]
    ratios = [value for task in tasks if isinstance(value := task[TASK, "process-ratio"], float)]
    busy = sum(ratios)
    for task, ratio in zip(tasks, ratios, strict=True):
        task[TASK, "active-process-ratio"] = ratio / busy if busy else 0.0
