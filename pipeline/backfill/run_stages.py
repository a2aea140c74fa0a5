"""Runs the stages of a backfill by Spark, each after those that write what it reads; finished work is not repeated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.kafka.clients import ConfluentClients
from penstock.pipeline.backfill.causes import causes_named
from penstock.pipeline.backfill.plan import BackfillPlan, Stage
from penstock.pipeline.backfill.progress import Meter
from penstock.pipeline.backfill.stage_files import FINISHED_SCHEMA, FinishedTasks, RunTasks, StageWriter, rows_of
from penstock.pipeline.backfill.stage_rows import StageRows
from penstock.pipeline.backfill.work import Run, StageManifest, StageWork
from penstock.pipeline.reading.contracts import HistorySource, every_record
from penstock.pipeline.reading.history import in_cycle_order, in_task_order, records_of, shuffled, state_of
from penstock.pipeline.rows import REPARTITION
from penstock.pipeline.task_hosts.cycle_host import CycleHost
from penstock.pipeline.task_hosts.global_topics import GlobalTopics
from penstock.pipeline.task_hosts.task_host import TaskHost
from penstock.topology.physical.topology import Topology

_KEPT = "What the other tasks have finished is kept: with --resume the backfill continues from it"


@dataclass
class Results:
    """The results of the stages that are finished."""

    run: Run
    stages: list[tuple[Stage, StageManifest]] = field(default_factory=list)

    def rows(self, spark: SparkSession, kind: str) -> StageRows:
        """Returns the rows of ``kind`` of all stages."""
        files = [file for _, manifest in self.stages for file in manifest.files(kind)]
        return StageRows(spark, self.run.location, files)

    def shuffled(self, spark: SparkSession, stage: Stage) -> list[DataFrame]:
        """Returns what earlier stages wrote to the repartition topics that ``stage`` reads."""
        frames = []
        for writer, manifest in self.stages:
            files = manifest.files(REPARTITION)
            if files and (topics := stage.repartition_topics & writer.shuffles):
                frames.append(shuffled(rows_of(spark, self.run.location, files), sorted(topics)))
        return frames

    def shuffled_rows(self, stage: Stage) -> int:
        """Returns the number of rows of earlier stages that may be for ``stage``."""
        return sum(
            file.rows
            for writer, manifest in self.stages
            if stage.repartition_topics & writer.shuffles
            for file in manifest.files(REPARTITION)
        )

    def finished(self) -> list[FinishedTasks]:
        """Returns the reports of all tasks."""
        return [tasks for _, manifest in self.stages for tasks in manifest.finished]

    def read(self, repartition: frozenset[str]) -> dict[str, int]:
        """Returns the number of records that were read from each topic, except repartition topics."""
        counts: Counter[str] = Counter()
        for tasks in self.finished():
            counts.update({topic: count for topic, count in tasks.read.items() if topic not in repartition})
        return dict(counts)

    def metadata(self) -> dict[TopicPartition, str]:
        """Returns what is committed with the offset of each partition."""
        return {TopicPartition(topic, number): text for each in self.finished() for topic, number, text in each.offsets}


@dataclass
class StageRunner:
    """Runs the stages of ``plan``, and keeps their results in the work of ``run``.

    ``history`` holds the source topics, ``changelogs`` the application's own topics.
    """

    plan: BackfillPlan
    topology: Topology
    config: StreamsConfig
    clients: ConfluentClients
    history: HistorySource
    changelogs: HistorySource
    spark: SparkSession
    run: Run
    meter: Meter
    allow_wall_clock: bool = False

    def run_all(self) -> Results:
        """Returns the results of all stages, of those that were finished before, too."""
        results = Results(self.run)
        for number, stage in enumerate(self.plan.stages, 1):
            work = self.run.stage(number)
            named = f"stage {number} of {len(self.plan.stages)}: {name_of(stage)}"
            manifest = work.manifest()
            if manifest is None:
                manifest = self._run(named + _size(stage), stage, work, results)
            else:
                self.meter.begin(f"{named} was finished before")
            results.stages.append((stage, manifest))
        return results

    def _run(self, named: str, stage: Stage, work: StageWork, results: Results) -> StageManifest:
        finished = work.finished()
        done = sorted({task for each in finished for task in each.tasks})
        work.begin()
        rows = rows_of_stage(stage) + results.shuffled_rows(stage) - sum(each.rows for each in finished)
        self.meter.begin(named, work, rows)
        inputs = self._inputs(stage, results)
        if stage.inner_topics and done:  # all of its tasks are in one Spark partition
            inputs = []
        elif done:
            inputs = [frame.where(~sql.col("task").isin(done)) for frame in inputs]
        if inputs:
            run_tasks, ordered = self._host(stage, inputs)
            writer = StageWriter(run_tasks, self.run.location, work.prefix)
            with causes_named(f"{name_of(stage)} failed over history", _KEPT):
                ordered.mapInArrow(writer.run, FINISHED_SCHEMA).collect()
        return work.commit()

    def _host(self, stage: Stage, inputs: list[DataFrame]) -> tuple[RunTasks, DataFrame]:
        topics = GlobalTopics(
            self.topology.global_subtopologies,
            self.plan.global_records,
            self.clients,
            partial(every_record, self.history),
        )
        shared = self.config, self.plan.topics, self.plan.committed, topics
        if stage.inner_topics:
            cycle = CycleHost(stage.subtopologies, stage.inner_topics, *shared, allow_wall_clock=self.allow_wall_clock)
            return cycle.run, in_cycle_order(inputs)
        (subtopology,) = stage.subtopologies
        host = TaskHost(subtopology, *shared, allow_wall_clock=self.allow_wall_clock)
        return host.run, in_task_order(self.spark, inputs, stage.tasks)

    def _inputs(self, stage: Stage, results: Results) -> list[DataFrame]:
        read = records_of(self.spark, self.history, stage.records)
        inputs = [read, *results.shuffled(self.spark, stage)]
        if not any(frame is not None for frame in inputs):
            return []
        for store, ranges in stage.changelogs.items():
            own = all(at.topic in self.plan.topics.changelogs for at in ranges)
            source = self.changelogs if own else self.history
            inputs.append(state_of(self.spark, source, store, ranges, unfinished=False))
        for store, ranges in stage.unfinished.items():
            inputs.append(state_of(self.spark, self.changelogs, store, ranges, unfinished=True))
        return [frame for frame in inputs if frame is not None]


def rows_of_stage(stage: Stage) -> int:
    """Returns the number of records and of rows to restore of a stage, except what is shuffled to it. These are
    offsets, and some may be without a record."""
    ranges = (stage.records, *stage.changelogs.values(), *stage.unfinished.values())
    return sum(max(0, each.end - each.begin) for offsets in ranges for each in offsets.values())


def _size(stage: Stage) -> str:
    offsets = sum(each.end - each.begin for each in stage.records.values())
    return f", {offsets:,} records of source topics" if offsets else ""


def name_of(stage: Stage) -> str:
    """Returns the name of ``stage`` for messages."""
    *others, last = (str(sub.id) for sub in stage.subtopologies)
    return f"sub-topologies {', '.join(others)} and {last}" if others else f"sub-topology {last}"
