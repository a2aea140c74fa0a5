"""``penstock audit``: compute an application's stores again with Spark, and compare them with the live ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import Row

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.step_progress import Progress, StepProgress
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.internal_topics.known_topics import without_lost_topics
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.audit.comparing import StoreComparison, compared, computed_stores
from penstock.pipeline.audit.contracts import LiveStores
from penstock.pipeline.audit.origins import KeyOffsets, offsets_of_keys, record_key
from penstock.pipeline.audit.plan import AuditPlan, plan_audit
from penstock.pipeline.audit.sampling import SampledHistory, refusal_of_sample
from penstock.pipeline.audit.shown import RowsInWords
from penstock.pipeline.audit.task_audit import TaskAudit
from penstock.pipeline.audit.work_folder import work_folder
from penstock.pipeline.backfill.archive_history import ArchiveAndKafka, ArchiveHistory
from penstock.pipeline.backfill.planned_offsets import PlannedOffsets
from penstock.pipeline.backfill.progress import Meter
from penstock.pipeline.backfill.resuming import program_hash
from penstock.pipeline.backfill.run_stages import StageRunner
from penstock.pipeline.backfill.work import Run, RunManifest, new_run_id
from penstock.pipeline.reading.contracts import HistorySource
from penstock.pipeline.reading.inline_certificates import with_inline_certificates
from penstock.pipeline.reading.kafka_history import KafkaHistory
from penstock.pipeline.rows import END
from penstock.pipeline.spark.causes import causes_named
from penstock.pipeline.spark.place import SparkPlace
from penstock.pipeline.spark.spark_progress import tasks_of
from penstock.pipeline.spark.spark_session import master_of, require_spark, spark_session
from penstock.pipeline.spark.spark_settings import require_one_machine
from penstock.pipeline.task_hosts.contracts import EndRow
from penstock.state.key_sample import KeySample
from penstock.topology.physical.pattern_sources import with_matched_topics
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.physical.topology import Topology

_FAILED = "the audit could not be done, and has changed nothing"
TakeImages = Callable[[AuditPlan, ConfluentClients], LiveStores]
"""Takes the stores that a plan asks for: images of a running application, or checkpoints."""


@dataclass(frozen=True)
class AuditOptions:
    """``sample``: the keys that are audited, None is all. ``shown``: number of differences of a store that are shown.
    ``archive``: has the records that Kafka has no more. ``work``: the place of results between stages, which all
    executors reach; None is a local folder."""

    sample: KeySample | None = None
    shown: int = 10
    archive: ObjectLocation | None = None
    work: ObjectLocation | None = None
    allow_wall_clock: bool = False


@dataclass(frozen=True)
class ShownDifference:
    """A row that differs, for people: key, what Spark computed, and what the live store has. ``origins``: the records
    of its key among those that its task reads from outside."""

    store: str
    task: TaskId
    key: str
    expected: str
    found: str
    origins: tuple[KeyOffsets, ...] = ()


@dataclass(frozen=True)
class AuditReport:
    """The result of an audit: the comparison of each store, and the first differences.

    ``offsets``: the input offsets up to which everything was computed. ``rows``: rows compared on each side.
    ``not_compared``: other stores, and the reason.
    """

    stores: tuple[StoreComparison, ...]
    differences: tuple[ShownDifference, ...]
    offsets: Mapping[TopicPartition, int]
    read: Mapping[str, int]
    not_compared: Mapping[str, str]
    held_s: float
    seconds: float
    sample: KeySample | None = None
    behind_repartition: frozenset[TaskId] = field(default_factory=frozenset)

    @property
    def is_clean(self) -> bool:
        """True if no row differs."""
        return not any(store.differs for store in self.stores)


def audit(
    topology: Topology,
    config: StreamsConfig,
    take_images: TakeImages,
    place: SparkPlace | str | None = None,
    progress: Progress = lambda now: None,
    options: AuditOptions | None = None,
) -> AuditReport:
    """Compute the stores with Spark, at a place or master URL, from the first record to the offsets of the stores that
    ``take_images`` returns, and compare.

    Changes nothing in Kafka or in the application. Raises StreamsError if that could not be done: ConfigError for a
    topology whose results depend on more than its records, ApplicationStateError if the application does not run, or
    comes to no audit point, or if records are gone that its stores stand for.
    """
    require_spark()
    at = place if isinstance(place, SparkPlace) else SparkPlace(place)
    it = _Audit(topology, with_inline_certificates(config), options or AuditOptions(), progress)
    return it.run(take_images, at)


class _Audit:
    def __init__(self, topology: Topology, config: StreamsConfig, options: AuditOptions, progress: Progress) -> None:
        self._begun = time.monotonic()
        self._config = config
        self._options = options
        self._progress = progress
        self._clients = ConfluentClients.of(config)
        self._kafka = KafkaHistory(self._clients)
        admin = self._clients.admin()
        existing = admin.topics()
        self._history: HistorySource = self._kafka
        if options.archive is not None:
            archive = ArchiveHistory(options.archive, admin.topic_ids(existing))
            self._history = ArchiveAndKafka(archive, self._kafka, alone=False)
        self._topology = with_matched_topics(topology, config.application_id, existing)
        planned = without_lost_topics(admin, config.application_id, partial(plan_topics, self._topology, config))
        self._plan = plan_audit(self._topology, config, planned(existing), existing)

    def run(self, take_images: TakeImages, place: SparkPlace) -> AuditReport:
        plan, sample = self._plan, self._options.sample
        if sample is not None and (reason := refusal_of_sample(plan.programs, plan.counts.repartition)) is not None:
            raise ConfigError(f"--sample: {reason}. Audit all keys")
        self._progress(StepProgress("reading offsets from Kafka"))
        plan.require_history(self._history.available(plan.from_outside), {})
        with closing(take_images(plan, self._clients)) as live:
            plan.require_layouts(live.layouts)
            self._plan = plan.for_stores([task for task, stores in live.layouts.items() if stores])
            plan.require_history(self._history.available(plan.from_outside), live.offsets)
            self._history.require(plan.ranges(live.offsets))
            self._progress(StepProgress("computing hashes of the stores"))
            digests = live.digests(sample)
            results, rows = self._computed(place, live.offsets, TaskAudit(digests, sample))
            self._progress(StepProgress("comparing rows"))
            stores = compared(live, digests, computed_stores(rows), self._options.shown, sample)
            others = self._absent(live, {store.store for store in stores})
        if any(store.first for store in stores):
            self._progress(StepProgress("looking for the records of rows that differ"))
        return AuditReport(
            tuple(stores),
            tuple(self._shown(stores, live.offsets)),
            {at: offset for at, offset in live.offsets.items() if at in plan.from_outside},
            results,
            {**others, **plan.not_compared},
            live.held_s,
            time.monotonic() - self._begun,
            sample,
            frozenset(task for task, read in plan.sources.items() if read - plan.from_outside),
        )

    def _absent(self, live: LiveStores, compared_ones: Collection[str]) -> dict[str, str]:
        """Returns the other stores of the program, and the reasons."""
        tasks: dict[int, list[TaskId]] = {}
        for task in sorted(self._plan.sources):
            tasks.setdefault(task.subtopology, []).append(task)
        return {
            name: live.why_absent(tasks[sub], name)
            for sub, stores in self._plan.builders.items()
            for name in stores.keys() - compared_ones
        }

    def _computed(
        self, place: SparkPlace, offsets: Mapping[TopicPartition, int], at_end: TaskAudit
    ) -> tuple[Mapping[str, int], list[tuple[TaskId, EndRow]]]:
        """Returns the numbers of records that were read, and what the ends of the tasks have yielded."""
        plan = self._plan.at(offsets, self._kafka.available(self._plan.global_partitions))
        history, sample = self._history, self._options.sample
        if sample is not None:
            history = SampledHistory(history, sample)
        with self._work(master_of(place)) as work:
            manifest = RunManifest(
                new_run_id(),
                self._config.application_id,
                program_hash(self._topology, plan),
                {"audit": ""},
                PlannedOffsets.of(plan),
                {},
            )
            run = Run.begin(work, manifest)
            self._progress(StepProgress("starting Spark"))
            with (
                spark_session(place, f"audit {self._config.application_id}", program=self._topology) as spark,
                causes_named(_FAILED),
            ):
                meter = Meter(partial(tasks_of, spark.sparkContext), self._progress)
                with meter.watching():
                    runner = StageRunner(
                        plan,
                        self._topology,
                        self._config,
                        history,
                        self._kafka,
                        spark,
                        run,
                        meter,
                        self._options.allow_wall_clock,
                        at_end,
                    )
                    results = runner.run_all()
                    meter.begin("collecting what differs")
                    rows = list(_end_rows(results.rows(spark, END).frame().collect()))
            read = results.read(plan.topics.repartition)
            run.delete()
        return read, rows

    @contextmanager
    def _work(self, master: str) -> Iterator[ObjectLocation]:
        if self._options.work is not None:
            yield self._options.work.below(f"{self._config.application_id}/audit-{new_run_id()}")
            return
        require_one_machine(master)
        with work_folder(self._config.state_dir / self._config.application_id) as folder:
            yield ObjectLocation(str(folder))

    def _shown(self, stores: Sequence[StoreComparison], offsets: Mapping[TopicPartition, int]) -> list[ShownDifference]:
        plan = self._plan
        first = [(store.store, each) for store in stores for each in store.first]
        ranges = plan.ranges(offsets)
        keys: dict[TaskId, list[bytes]] = {}
        for store, each in first:
            builder = plan.programs[each.task.subtopology].stores[store]
            keys.setdefault(each.task, []).append(record_key(builder, each.row.key))
        sources = {task: {at: ranges[at] for at in plan.sources[task] & plan.from_outside} for task in keys}
        found = offsets_of_keys(self._history, ranges, keys, sources)
        shown = []
        for store, each in first:
            builder, row = plan.programs[each.task.subtopology].stores[store], each.row
            words = RowsInWords(builder)
            origins = tuple(found.get((each.task, record_key(builder, row.key)), ()))
            expected, there = words.row(row.key, row.expected), words.row(row.key, row.found)
            shown.append(ShownDifference(store, each.task, words.key(row.key), expected, there, origins))
        return shown


def _end_rows(rows: Sequence[Row]) -> Iterator[tuple[TaskId, EndRow]]:
    for row in rows:
        end = EndRow(row["topic"], row["partition"], bytes(row["key"]), bytes(row["value"]))
        yield TaskId(row["task"] >> 16, row["task"] & 0xFFFF), end
