"""``penstock backfill``: run a topology over the history of its topics; the live application continues from there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial, reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.log import logger
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.kafka.internal_topics.known_topics import without_lost_topics
from penstock.kafka.topics import Topics
from penstock.pipeline.backfill.bounds import WHOLE, Bounds
from penstock.pipeline.backfill.causes import causes_named
from penstock.pipeline.backfill.contracts import HandOver
from penstock.pipeline.backfill.hand_over import KafkaHandOver
from penstock.pipeline.backfill.offsets_now import History
from penstock.pipeline.backfill.plan import BackfillPlan, Stage, plan_backfill, refuse_if_running
from penstock.pipeline.reading.contracts import HistorySource
from penstock.pipeline.reading.history import in_cycle_order, in_task_order, records_of, shuffled, state_of
from penstock.pipeline.reading.kafka_history import KafkaHistory
from penstock.pipeline.reading.kafka_options import reader_options
from penstock.pipeline.rows import CHANGELOG, DROPPED, OFFSET, OUTPUT_SCHEMA, READ, SINK
from penstock.pipeline.spark.spark_progress import Progress, SparkProgress, tasks_of
from penstock.pipeline.spark.spark_session import spark_session
from penstock.pipeline.task_hosts.cycle_host import CycleHost
from penstock.pipeline.task_hosts.global_topics import GlobalTopics
from penstock.pipeline.task_hosts.task_host import TaskHost
from penstock.topology.physical.pattern_sources import with_matched_topics
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.physical.topology import Topology

LOCAL_MASTER = "local[*]"


@dataclass(frozen=True)
class BackfillReport:
    """The result of a backfill. Counts are by topic."""

    read: Mapping[str, int]
    dropped: int
    written: Mapping[str, int]
    changelog_rows: Mapping[str, int]
    committed: Mapping[TopicPartition, int]
    stages: int
    seconds: float
    notes: tuple[str, ...] = ()


def backfill(
    topology: Topology,
    config: StreamsConfig,
    master: str = LOCAL_MASTER,
    progress: Progress = lambda step, done, total: None,
    *,
    bounds: Bounds = WHOLE,
) -> BackfillReport:
    """Process with Spark on ``master`` the records of the source topics between ``bounds``: by default all that they
    have now, from the committed offsets on.

    Order of effects: results to their topics, final state to the changelogs, offsets last. If it fails in between, it
    can be run again: state and offsets come out the same, results are written again (at least once). ``progress``
    is called at the beginning of each step, and each second if Spark has advanced. Raises ApplicationStateError
    (running, or not in a state that allows it), MissingTopicError, BrokerUnreachableError, KafkaRefusedError,
    ConfigError for a security setting that Spark's reader does not have, and StreamsError with the cause when a task
    fails.
    """
    begun = time.monotonic()
    clients = ConfluentClients.of(config)
    history = KafkaHistory(clients, reader_options(config))
    admin = clients.admin()
    existing = admin.topics()
    refuse_if_running(config, admin)
    progress("reading offsets from Kafka", 0, 0)
    topology = with_matched_topics(topology, config.application_id, existing)
    topics = ensure_topics(
        admin, without_lost_topics(admin, config.application_id, partial(plan_topics, topology, config))
    )
    with closing(clients.consumer()) as consumer:
        known = History(history.available, Topics.of(clients).offsets_at)
        plan = plan_backfill(topology, config, topics, admin, consumer, known, bounds)
    for note in plan.notes:
        logger(__name__).warning(note)
    progress("starting Spark", 0, 0)
    with (
        spark_session(master, config.application_id) as spark,
        SparkProgress(partial(tasks_of, spark.sparkContext), progress) as steps,
    ):
        hand_over = KafkaHandOver(config, clients, admin, plan.changelog_ends, plan.fingerprint)
        run = _Backfill(plan, topology, config, clients, history, spark, steps.begin)
        run.run_stages()
        # Processing may have taken hours.
        refuse_if_running(config, admin)
        return run.hand_over(hand_over, begun)


class _Backfill:
    def __init__(
        self,
        plan: BackfillPlan,
        topology: Topology,
        config: StreamsConfig,
        clients: ConfluentClients,
        history: HistorySource,
        spark: SparkSession,
        progress: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._global_subtopologies = topology.global_subtopologies
        self._config = config
        self._clients = clients
        self._spark = spark
        self._progress = progress
        self._history = history
        self._results: list[tuple[frozenset[str], DataFrame]] = []
        self._read: Counter[str] = Counter()
        self._dropped = 0
        self._metadata: dict[TopicPartition, str] = {}

    def run_stages(self) -> None:
        for number, stage in enumerate(self._plan.stages, 1):
            self._progress(f"stage {number} of {len(self._plan.stages)}: {_named(stage)}{_size(stage)}")
            self._run_stage(stage)
        for row in self._rows(OFFSET, READ, DROPPED).collect():
            self._take_report(row)

    def hand_over(self, to: HandOver, begun: float) -> BackfillReport:
        to.note()
        self._progress("writing results")
        written = to.results(self._rows(SINK))
        self._progress("writing state")
        changelog_rows = to.state(self._rows(CHANGELOG))
        self._progress("committing offsets")
        offsets = self._plan.offsets(self._metadata)
        to.offsets(offsets)
        to.withdraw()
        committed = {partition: offset.offset for partition, offset in offsets.items()}
        seconds = time.monotonic() - begun
        stages = len(self._plan.stages)
        return BackfillReport(
            self._read, self._dropped, written, changelog_rows, committed, stages, seconds, self._plan.notes
        )

    def _run_stage(self, stage: Stage) -> None:
        inputs = [frame for frame in self._inputs(stage) if frame is not None]
        if not inputs:
            return
        topics = GlobalTopics(self._global_subtopologies, self._plan.global_records, self._clients)
        host: TaskHost | CycleHost
        shared = self._config, self._plan.topics, self._plan.committed, topics
        if stage.inner_topics:
            host, ordered = CycleHost(stage.subtopologies, stage.inner_topics, *shared), in_cycle_order(inputs)
        else:
            (subtopology,) = stage.subtopologies
            host, ordered = TaskHost(subtopology, *shared), in_task_order(self._spark, inputs, stage.tasks)
        with causes_named(f"{_named(stage)} failed over history"):
            # Kept on disk without its lineage: user functions must not run twice for one result.
            results = ordered.mapInArrow(host.run, OUTPUT_SCHEMA).localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
        self._results.append((stage.shuffles, results))

    def _inputs(self, stage: Stage) -> list[DataFrame | None]:
        inputs = [records_of(self._spark, self._history, stage.records)]
        for shuffles, results in self._results:
            if topics := stage.repartition_topics & shuffles:
                inputs.append(shuffled(results, sorted(topics)))
        if not any(frame is not None for frame in inputs):
            return []
        for store, ranges in stage.changelogs.items():
            inputs.append(state_of(self._spark, self._history, store, ranges, unfinished=False))
        for store, ranges in stage.unfinished.items():
            inputs.append(state_of(self._spark, self._history, store, ranges, unfinished=True))
        return inputs

    def _take_report(self, row: Row) -> None:
        if row["kind"] == OFFSET:
            self._metadata[TopicPartition(row["topic"], row["partition"])] = row["value"].decode()
        elif row["kind"] == DROPPED:
            self._dropped += row["sequence"]
        elif row["topic"] not in self._plan.topics.repartition:
            self._read[row["topic"]] += row["sequence"]

    def _rows(self, *kinds: str) -> DataFrame:
        """Returns the rows of ``kinds`` of all stages, for a single job: every core has work, and none has more than
        one producer."""
        rows = [results.where(sql.col("kind").isin(*kinds)) for _, results in self._results]
        together = reduce(DataFrame.unionByName, rows, self._spark.createDataFrame([], OUTPUT_SCHEMA))
        return together.coalesce(self._spark.sparkContext.defaultParallelism)


def _size(stage: Stage) -> str:
    offsets = sum(each.end - each.begin for each in stage.records.values())
    return f", {offsets:,} records of source topics" if offsets else ""


def _named(stage: Stage) -> str:
    """Returns the name of ``stage`` for messages."""
    *others, last = (str(sub.id) for sub in stage.subtopologies)
    return f"sub-topologies {', '.join(others)} and {last}" if others else f"sub-topology {last}"
