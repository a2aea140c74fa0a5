"""Runs the stages of a backfill by Spark, each after those that write what it reads; finished work is not repeated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import SparkSession

from penstock.checkpoints.hand_overs import HandedOverTask
from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import size_of
from penstock.common.shown import counted
from penstock.pipeline.backfill.plan import BackfillPlan, Stage
from penstock.pipeline.backfill.progress import Meter
from penstock.pipeline.backfill.row_files import Files
from penstock.pipeline.backfill.splitting import RECORDS_PER_PART, parts_of, unfinished
from penstock.pipeline.backfill.stage_files import FINISHED_SCHEMA, RECORDS, FinishedTasks, RunTasks, StageWriter, Unit
from penstock.pipeline.backfill.stage_input import ChangelogRows, HistoryInput
from penstock.pipeline.backfill.stage_rows import StageRows
from penstock.pipeline.backfill.work import Run, StageManifest, StageWork
from penstock.pipeline.reading.contracts import HistorySource, every_record
from penstock.pipeline.rows import END, REPARTITION
from penstock.pipeline.spark.causes import causes_named
from penstock.pipeline.task_hosts.checkpoints import CheckpointUpload
from penstock.pipeline.task_hosts.contracts import TaskEnd
from penstock.pipeline.task_hosts.cycle_host import CycleHost
from penstock.pipeline.task_hosts.global_topics import GlobalTopics
from penstock.pipeline.task_hosts.pass_host import PassHost
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from penstock.tasks.offsets import decode_partition_time
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

    def shuffled(self, stage: Stage) -> list[Files]:
        """Returns the files of earlier stages with rows for the repartition topics that ``stage`` reads."""
        return [
            file
            for writer, manifest in self.stages
            if stage.repartition_topics & writer.shuffles
            for file in manifest.files(REPARTITION)
        ]

    def shuffled_rows(self, stage: Stage) -> int:
        """Returns the number of rows of earlier stages for ``stage``."""
        groups = [group for files in self.shuffled(stage) for file in files for group in file.groups]
        return sum(group.rows for group in groups if group.topic in stage.repartition_topics)

    def finished(self) -> list[FinishedTasks]:
        """Returns the reports of all tasks."""
        return [tasks for _, manifest in self.stages for tasks in manifest.finished]

    def read(self, repartition: frozenset[str]) -> dict[str, int]:
        """Returns the number of records that were read from each topic, except repartition topics."""
        counts: Counter[str] = Counter()
        for tasks in self.finished():
            counts.update({topic: count for topic, count in tasks.read.items() if topic not in repartition})
        return dict(counts)

    def checkpoints(self) -> dict[str, HandedOverTask]:
        """Returns the stores that were uploaded, by task."""
        return {task: part for each in self.finished() for task, part in each.checkpoints.items()}

    def metadata(self) -> dict[TopicPartition, str]:
        """Returns what is committed with the offset of each partition. Parts of a task have only its time to commit."""
        found: dict[TopicPartition, str] = {}
        for topic, number, text in (offset for each in self.finished() for offset in each.offsets):
            at = TopicPartition(topic, number)
            if at not in found or decode_partition_time(text) > decode_partition_time(found[at]):
                found[at] = text
        return found


@dataclass
class StageRunner:
    """Runs the stages of ``plan``, and keeps their results in the work of ``run``.

    ``history`` holds the source topics, ``changelogs`` the application's own topics.
    """

    plan: BackfillPlan
    topology: Topology
    config: StreamsConfig
    history: HistorySource
    changelogs: HistorySource
    spark: SparkSession
    run: Run
    meter: Meter
    allow_wall_clock: bool = False
    at_end: TaskEnd | None = None
    """Takes the stores at the ends of tasks: then neither changelogs nor results are kept."""
    records_per_part: int = RECORDS_PER_PART
    checkpoints: CheckpointUpload | None = None
    """Uploads the stores at the ends of tasks, beside the changelogs."""

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
        done = {(task, each.part) for each in finished for task in each.tasks}
        work.begin()
        rows = rows_of_stage(stage) + results.shuffled_rows(stage) - sum(each.rows for each in finished)
        self.meter.begin(named, work, rows)
        parts = unfinished(parts_of(stage, self.config, self.records_per_part), done)
        if parts and (given := self._input(stage, results)) is not None:
            partial_pass = stage.cycle is not None and stage.cycle.partial
            kept = frozenset({REPARTITION, END}) if partial_pass or self.at_end is not None else RECORDS
            units = [Unit(part.tasks, part.number, replace(given, records=part.records)) for part in parts]
            writer = StageWriter(self._host(stage), units, self.run.location, work.prefix, kept)
            with causes_named(f"{name_of(stage)} failed over history", _KEPT if self.at_end is None else ""):
                indexes = self.spark.range(0, len(units), 1, len(units))
                indexes.mapInArrow(writer.run, FINISHED_SCHEMA).collect()
        return work.commit()

    def _host(self, stage: Stage) -> RunTasks:
        topics = GlobalTopics(
            self.topology.global_subtopologies,
            self.plan.global_records,
            partial(every_record, self.history),
        )
        settings = HostSettings(
            self.config,
            self.plan.topics,
            self.plan.committed,
            topics,
            self.allow_wall_clock,
            self.at_end,
            self.checkpoints,
        )
        if stage.inner_topics:
            return CycleHost(stage.subtopologies, stage.inner_topics, settings).run
        (subtopology,) = stage.subtopologies
        if stage.cycle is not None:
            return PassHost(subtopology, settings, stage.cycle).run
        return TaskHost(subtopology, settings).run

    def _input(self, stage: Stage, results: Results) -> HistoryInput | None:
        """Returns the input of ``stage``; None if there is no record, and so nothing to do."""
        shuffled = results.shuffled(stage)
        if not shuffled and not any(stage.records.values()):
            return None
        changelogs = []
        for store, ranges in stage.changelogs.items():
            own = all(at.topic in self.plan.topics.changelogs for at in ranges)
            changelogs.append(ChangelogRows(store, self.changelogs if own else self.history, ranges, unfinished=False))
        for store, ranges in stage.unfinished.items():
            changelogs.append(ChangelogRows(store, self.changelogs, ranges, unfinished=True))
        topics = stage.repartition_topics - stage.inner_topics
        return HistoryInput(
            stage.subtopologies,
            self.config,
            self.plan.committed,
            self.history,
            stage.records,
            changelogs,
            self.run.location,
            shuffled,
            topics,
            stage.cycle,
        )


def rows_of_stage(stage: Stage) -> int:
    """Returns the number of records and of rows to restore of a stage, except what is shuffled to it. These are
    offsets, and some may be without a record."""
    ranges = (stage.records, *stage.changelogs.values(), *stage.unfinished.values())
    return sum(map(size_of, ranges))


def _size(stage: Stage) -> str:
    offsets = size_of(stage.records)
    return f", {counted(offsets, 'offset')} of source topics" if offsets else ""


def name_of(stage: Stage) -> str:
    """Returns the name of ``stage`` for messages."""
    *others, last = (str(sub.id) for sub in stage.subtopologies)
    if stage.cycle is not None:
        return f"sub-topology {last} (pass {stage.cycle.number} of {stage.cycle.passes} over its cycle)"
    return f"sub-topologies {', '.join(others)} and {last}" if others else f"sub-topology {last}"
