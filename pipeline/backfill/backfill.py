"""``penstock backfill``: run a topology over the history of its topics; the live application continues from there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from penstock.checkpoints.hand_overs import HandOverWriter
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.ids import TopicPartition
from penstock.common.log import logger
from penstock.common.step_progress import Progress, StepProgress
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import Admin
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.kafka.internal_topics.known_topics import without_lost_topics
from penstock.objects.storage import ObjectLocation, require_conditional_writes
from penstock.pipeline.backfill.archive_history import ArchiveAndKafka, ArchiveHistory
from penstock.pipeline.backfill.bounds import WHOLE, Bounds
from penstock.pipeline.backfill.checkpoint_hand_over import (
    CheckpointHandOver,
    begun_checkpoints,
    checkpoint_location,
    refuse_other_checkpoints,
)
from penstock.pipeline.backfill.compare import Comparison, compare, stores_to_compare
from penstock.pipeline.backfill.contracts import HandOver
from penstock.pipeline.backfill.explain import explained
from penstock.pipeline.backfill.hand_over import KafkaHandOver
from penstock.pipeline.backfill.offsets_now import OffsetLookUp
from penstock.pipeline.backfill.outputs import NoOutput, ParquetOutput, refuse_if_written
from penstock.pipeline.backfill.plan import BackfillPlan, plan_backfill, refuse_if_moved, refuse_if_running
from penstock.pipeline.backfill.planned_offsets import PlannedOffsets
from penstock.pipeline.backfill.progress import Meter
from penstock.pipeline.backfill.resuming import plan_of_unfinished, program_hash, refuse_other_topics
from penstock.pipeline.backfill.run_stages import Results, StageRunner
from penstock.pipeline.backfill.work import Run, RunManifest, new_run_id
from penstock.pipeline.reading.contracts import HistorySource
from penstock.pipeline.reading.inline_certificates import with_inline_certificates
from penstock.pipeline.reading.kafka_history import KafkaHistory
from penstock.pipeline.rows import CHANGELOG, SINK
from penstock.pipeline.spark.place import SparkPlace
from penstock.pipeline.spark.spark_progress import tasks_of
from penstock.pipeline.spark.spark_session import master_of, require_spark, spark_session
from penstock.pipeline.spark.spark_settings import require_one_machine
from penstock.pipeline.task_hosts.checkpoints import CheckpointUpload
from penstock.topology.physical.pattern_sources import with_matched_topics
from penstock.topology.physical.topic_plan import TopicPlan, plan_topics
from penstock.topology.physical.topology import Topology

KAFKA, NONE, DRY_RUN = "kafka", "none", "dry-run"


@dataclass(frozen=True)
class BackfillOptions:
    """The options of a backfill.

    ``work``: the place of the results of its stages; None is a local folder. ``resume``: continue an unfinished
    backfill, if there is one. ``allow_wall_clock``: punctuators by the wall clock may be scheduled; none is called.
    ``output``: ``KAFKA`` hands over to the application, ``NONE`` hands nothing over, and a location gets results and
    state as Parquet files. ``archive``: history is read from there; ``kafka_too``: from its last offset on from Kafka.
    ``bounds.recompute``: a dry run, which computes the state again and compares it.
    """

    bounds: Bounds = WHOLE
    work: ObjectLocation | None = None
    resume: bool = False
    allow_wall_clock: bool = False
    output: ObjectLocation | str = KAFKA
    archive: ObjectLocation | None = None
    kafka_too: bool = True

    @property
    def kind(self) -> str:
        """The name of what the backfill does with its results. Each kind has its own work."""
        if self.bounds.recompute:
            return DRY_RUN
        return self.output if isinstance(self.output, str) else "files"

    def in_words(self) -> dict[str, str]:
        """Returns the options that decide what a backfill computes."""
        output = {} if isinstance(self.output, str) else {"output": self.output.shown_url}
        archive = {} if self.archive is None else {"source": f"{self.archive.shown_url}{',kafka' * self.kafka_too}"}
        return {**self.bounds.in_words(), **output, **archive}


@dataclass(frozen=True)
class BackfillReport:
    """The result of a backfill. Counts are by topic. ``notes``: sentences that people should read.

    ``handed_over``: number of tasks whose stores were handed over as checkpoints, too. ``compared``: of a dry run, the
    changelogs; ``not_compared``: stores whose changelogs were left out. ``kind``: see
    :class:`BackfillOptions`.
    """

    read: Mapping[str, int]
    dropped: int
    written: Mapping[str, int]
    changelog_rows: Mapping[str, int]
    committed: Mapping[TopicPartition, int]
    stages: int
    seconds: float
    notes: tuple[str, ...] = ()
    kind: str = KAFKA
    handed_over: int = 0
    compared: tuple[Comparison, ...] = ()
    not_compared: tuple[str, ...] = ()


def backfill(
    topology: Topology,
    config: StreamsConfig,
    place: SparkPlace | str | None = None,
    progress: Progress = lambda now: None,
    options: BackfillOptions | None = None,
) -> BackfillReport:
    """Process with Spark, at a place or master URL, the records of the source topics between the bounds: by default all
    that they have now, from the committed offsets on.

    Order of effects: results to their topics, final state to the changelogs, the manifest of the checkpoints (with
    ``state.checkpoint.uri``), offsets last. If it fails in between, it
    can be run again: state and offsets come out the same, results are written again (at least once). ``progress``
    is called at the beginning of each step, and each second if there is progress. Raises ApplicationStateError
    (running, or not in a state that allows it), MissingTopicError, BrokerUnreachableError, KafkaRefusedError,
    ConfigError for options and security settings that cannot be, ObjectStoreError, and StreamsError with the cause when
    a task fails.
    """
    begun = time.monotonic()
    require_spark()
    at = place if isinstance(place, SparkPlace) else SparkPlace(place)
    it = _Backfill(topology, with_inline_certificates(config), options or BackfillOptions())
    it.prepare(at, progress)
    progress(StepProgress("starting Spark"))
    with spark_session(at, f"backfill {config.application_id}", program=topology) as spark:
        meter = Meter(partial(tasks_of, spark.sparkContext), progress)
        with meter.watching():
            return it.run(spark, meter, begun)


def explain(topology: Topology, config: StreamsConfig, options: BackfillOptions | None = None) -> list[str]:
    """Returns the lines that explain what :func:`backfill` would do now. Changes nothing, and starts no Spark; raises
    what the backfill would raise before it starts Spark."""
    it = _Backfill(topology, config, options or BackfillOptions())
    return list(explained(it.look(), config, it.place_of))


class _Backfill:
    """One call of :func:`backfill`: what is known before Spark starts, and the end."""

    _plan: BackfillPlan
    _run: Run

    def __init__(self, topology: Topology, config: StreamsConfig, options: BackfillOptions) -> None:
        if options.resume and options.bounds.recompute:
            raise ConfigError("--resume: a dry run begins again each time; give one of --resume and --dry-run")
        self._config = config
        self._options = options
        self._clients = ConfluentClients.of(config)
        self._kafka = KafkaHistory(self._clients)
        self._admin: Admin = self._clients.admin()
        refuse_if_running(config, self._admin)
        topics = self._admin.topics()
        self._topology = with_matched_topics(topology, config.application_id, topics)
        self._history: HistorySource = self._kafka
        self._checkpoints: ObjectLocation | None = None
        if options.archive is not None:
            archive = ArchiveHistory(options.archive, self._admin.topic_ids(topics))
            self._history = ArchiveAndKafka(archive, self._kafka, alone=not options.kafka_too)

    def place_of(self, partition: TopicPartition) -> str:
        """Returns the place that the records of a source partition are read from, in words."""
        if not isinstance(self._history, ArchiveAndKafka):
            return "Kafka"
        url = self._history.archive.location.shown_url
        if self._history.alone:
            return f"the archive {url}"
        return f"the archive {url}, up to its last offset, and from there on Kafka"

    def look(self) -> BackfillPlan:
        """Returns the plan of a run that would begin now; changes nothing."""
        return self._planned(self._plan_topics()(self._admin.topics()))

    def prepare(self, place: SparkPlace, progress: Progress) -> None:
        """Create internal topics, and begin a run; or find an unfinished one."""
        progress(StepProgress("reading offsets from Kafka"))
        options = self._options
        if options.kind == KAFKA:
            self._checkpoints = checkpoint_location(self._config)
        work = _work(self._config, options, master_of(place))
        require_conditional_writes(work.open())
        if not isinstance(options.output, str):
            require_conditional_writes(options.output.open())
            refuse_if_written(options.output)
        topics = self._topics()
        found = self._unfinished(work, topics) if options.resume else None
        if found is not None:
            self._run, self._plan = found
            return
        if options.resume:
            logger(__name__).warning(
                "--resume: there is no unfinished backfill to continue; this one begins at the beginning",
                application=self._config.application_id, work=work.shown_url,
            )  # fmt: skip
        self._plan = plan = self._planned(topics)
        for note in plan.notes:
            logger(__name__).warning(note)
        program, offsets = program_hash(self._topology, plan), PlannedOffsets.of(plan)
        ids = self._admin.topic_ids(plan.read_topics)
        application_id, words = self._config.application_id, options.in_words()
        checkpoints = begun_checkpoints(self._checkpoints, application_id)
        manifest = RunManifest(new_run_id(), application_id, program, words, offsets, ids, checkpoints)
        self._run = Run.begin(work, manifest)

    def _topics(self) -> TopicPlan:
        if self._options.kind == KAFKA:
            return ensure_topics(self._admin, self._plan_topics())
        return self._plan_topics()(self._admin.topics())

    def _planned(self, topics: TopicPlan) -> BackfillPlan:
        with closing(self._clients.consumer()) as consumer:
            source = self._history
            offsets = OffsetLookUp(source.available, source.offsets_at, self._options.kafka_too)
            bounds = self._options.bounds
            plan = plan_backfill(self._topology, self._config, topics, self._admin, consumer, offsets, bounds)
        # A gap of an archive is named now, and not after hours of work.
        for stage in plan.stages:
            source.require(stage.records)
            for store, ranges in stage.changelogs.items():
                if not stage.unfinished[store]:  # a source topic restores it
                    source.require(ranges)
        source.require(plan.global_records)
        return plan

    def _plan_topics(self) -> Callable[[Mapping[str, int]], TopicPlan]:
        config = self._config
        return without_lost_topics(self._admin, config.application_id, partial(plan_topics, self._topology, config))

    def _unfinished(self, work: ObjectLocation, topics: TopicPlan) -> tuple[Run, BackfillPlan] | None:
        run = Run.unfinished(work)
        if run is None:
            return None
        refuse_other_checkpoints(run.manifest.checkpoints, self._checkpoints)
        options = self._options.in_words()
        with closing(self._clients.consumer()) as consumer:
            plan = plan_of_unfinished(run, options, self._topology, self._config, topics, self._admin, consumer)
        return None if plan is None else (run.taken_over(), plan)

    def run(self, spark: SparkSession, meter: Meter, begun: float) -> BackfillReport:
        """Run the stages, hand over what they have computed, and delete their work."""
        results = self._runner(spark, meter).run_all()
        to, checkpoints = self._hand_over(), self._checkpoint_hand_over()
        self._refuse_if_changed()
        offsets = self._plan.offsets(results.metadata())
        written: Mapping[str, int] = {}
        changelog_rows: Mapping[str, int] = {}
        if checkpoints is None or not checkpoints.committed():
            self._run.begin_hand_over()
            to.note()
            if self._options.kind == KAFKA:
                # Again: an application may have looked for the note before, and joined after the first look.
                refuse_if_running(self._config, self._admin)
            meter.begin("writing results")
            written = to.results(results.rows(spark, SINK))
            self._run.refuse_if_superseded()
            meter.begin("writing state")
            changelog_rows = to.state(results.rows(spark, CHANGELOG))
            if checkpoints is not None:
                meter.begin("handing over checkpoints")
                checkpoints.commit(results.checkpoints(), offsets, written)
        self._run.refuse_if_superseded()
        meter.begin("committing offsets")
        to.offsets(offsets)
        to.withdraw()
        compared, left_out = self._compared(spark, meter, results)
        self._run.delete()
        return BackfillReport(
            results.read(self._plan.topics.repartition),
            sum(tasks.dropped for tasks in results.finished()),
            written,
            changelog_rows,
            {partition: offset.offset for partition, offset in offsets.items()},
            len(self._plan.stages),
            time.monotonic() - begun,
            self._plan.notes,
            self._options.kind,
            0 if checkpoints is None else len(results.checkpoints()),
            tuple(compared),
            tuple(left_out),
        )

    def _runner(self, spark: SparkSession, meter: Meter) -> StageRunner:
        at, application_id = self._checkpoints, self._config.application_id
        return StageRunner(
            self._plan,
            self._topology,
            self._config,
            self._history,
            self._kafka,
            spark,
            self._run,
            meter,
            self._options.allow_wall_clock,
            checkpoints=None if at is None else CheckpointUpload(at, application_id),
        )

    def _refuse_if_changed(self) -> None:
        """Raise if a change since the plan was made rules out the hand-over: of the application, of its topics, or
        because another process works on the run. Processing may have taken hours."""
        if self._options.kind == KAFKA:
            refuse_if_running(self._config, self._admin)
            refuse_if_moved(self._config, self._admin, self._plan)
        refuse_other_topics(self._admin, self._run.manifest.topic_ids)
        self._run.refuse_if_superseded()

    def _hand_over(self) -> HandOver:
        output, plan = self._options.output, self._plan
        if isinstance(output, ObjectLocation) and not self._options.bounds.recompute:
            return ParquetOutput(self._config.application_id, output)
        if self._options.kind == KAFKA:
            ends, started_from = plan.changelog_ends, plan.fingerprint
            return KafkaHandOver(self._config, self._clients, self._admin, ends, started_from, self._run.owner)
        return NoOutput()

    def _checkpoint_hand_over(self) -> CheckpointHandOver | None:
        begun, application_id = self._run.manifest.checkpoints, self._config.application_id
        if self._checkpoints is None or begun is None:
            return None
        writer = HandOverWriter(self._checkpoints.open(), application_id, self._run.manifest.run_id, begun.epoch)
        return CheckpointHandOver(self._config, self._admin, self._plan.stages, writer)

    def _compared(self, spark: SparkSession, meter: Meter, results: Results) -> tuple[list[Comparison], list[str]]:
        if not self._options.bounds.recompute:
            return [], []
        meter.begin("comparing state")
        stores, left_out = stores_to_compare(self._topology, self._config)
        there = {at: offsets for at, offsets in self._plan.changelogs_now.items() if at.topic in stores}
        return compare(spark, self._kafka, there, results.rows(spark, CHANGELOG), stores), left_out


def _work(config: StreamsConfig, options: BackfillOptions, master: str) -> ObjectLocation:
    """Returns the place for the results of stages."""
    if options.work is not None:
        return options.work.below(config.application_id).below(options.kind)
    require_one_machine(master)
    return ObjectLocation(str(config.state_dir / config.application_id / "backfill" / options.kind))
