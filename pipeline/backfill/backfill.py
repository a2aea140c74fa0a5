"""``penstock backfill``: run a topology over the history of its topics; the live application continues from there."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial, reduce

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

from penstock.common.config import StreamsConfig
from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.kafka.backfill_note import withdraw_note, write_note
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import Admin
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.kafka.internal_topics.known_topics import without_lost_topics
from penstock.pipeline.backfill.hand_over import write_records
from penstock.pipeline.backfill.plan import BackfillPlan, Stage, plan_backfill, refuse_if_running
from penstock.pipeline.reading.history import KafkaReader, in_cycle_order, in_task_order, records_of, shuffled, state_of
from penstock.pipeline.reading.inline_certificates import with_inline_certificates
from penstock.pipeline.reading.kafka_options import reader_options, token_url
from penstock.pipeline.rows import CHANGELOG, DROPPED, OFFSET, OUTPUT_SCHEMA, READ, SINK
from penstock.pipeline.spark.place import SparkPlace
from penstock.pipeline.spark.spark_progress import Progress, SparkProgress, tasks_of
from penstock.pipeline.spark.spark_session import require_spark, spark_session
from penstock.pipeline.task_hosts.cycle_host import CycleHost
from penstock.pipeline.task_hosts.global_topics import GlobalTopics
from penstock.pipeline.task_hosts.task_host import TaskHost
from penstock.topology.physical.pattern_sources import with_matched_topics
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.physical.topology import Topology

# The last line of a Python traceback.
_CAUSE = re.compile(r"^(?:penstock\.[\w.]+\.)?(\w*Error: .+)$", re.MULTILINE)


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


def backfill(
    topology: Topology,
    config: StreamsConfig,
    place: SparkPlace | str | None = None,
    progress: Progress = lambda step, done, total: None,
) -> BackfillReport:
    """Process with Spark, at a place or master URL, all records that the source topics have now from the committed
    offsets on.

    Order of effects: results to their topics, final state to the changelogs, offsets last. If it fails in between, it
    can be run again: state and offsets come out the same, results are written again (at least once). ``progress``
    is called at the beginning of each step, and each second if Spark has advanced. Raises ApplicationStateError
    (running, or not in a state that allows it), MissingTopicError, BrokerUnreachableError, KafkaRefusedError,
    ConfigError for a security setting that Spark's reader does not have, and StreamsError with the cause when a task
    fails.
    """
    begun = time.monotonic()
    require_spark()
    config = with_inline_certificates(config)
    clients = ConfluentClients.of(config)
    reader = KafkaReader(config.bootstrap_servers, reader_options(config), clients.reads_committed)
    admin = clients.admin()
    existing = admin.topics()
    refuse_if_running(config, admin)
    progress("reading offsets from Kafka", 0, 0)
    topology = with_matched_topics(topology, config.application_id, existing)
    topics = ensure_topics(
        admin, without_lost_topics(admin, config.application_id, partial(plan_topics, topology, config))
    )
    with closing(clients.consumer()) as consumer:
        plan = plan_backfill(topology, config, topics, admin, consumer)
    progress("starting Spark", 0, 0)
    with (
        spark_session(
            place, f"backfill {config.application_id}", token_url=token_url(config), program=topology
        ) as spark,
        SparkProgress(partial(tasks_of, spark.sparkContext), progress) as steps,
    ):
        return _Backfill(plan, topology, config, clients, admin, reader, spark, steps.begin).run(begun)


class _Backfill:
    def __init__(
        self,
        plan: BackfillPlan,
        topology: Topology,
        config: StreamsConfig,
        clients: ConfluentClients,
        admin: Admin,
        reader: KafkaReader,
        spark: SparkSession,
        progress: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._global_subtopologies = topology.global_subtopologies
        self._config = config
        self._clients = clients
        self._admin = admin
        self._spark = spark
        self._progress = progress
        self._reader = reader
        self._results: list[tuple[frozenset[str], DataFrame]] = []
        self._read: Counter[str] = Counter()
        self._dropped = 0
        self._metadata: dict[TopicPartition, str] = {}

    def run(self, begun: float) -> BackfillReport:
        for number, stage in enumerate(self._plan.stages, 1):
            self._progress(f"stage {number} of {len(self._plan.stages)}: {_named(stage)}{_size(stage)}")
            self._run_stage(stage)
        for row in self._rows(OFFSET, READ, DROPPED).collect():
            self._take_report(row)
        # Processing may have taken hours.
        refuse_if_running(self._config, self._admin)
        changelogs = self._changelog_ends()
        write_note(self._admin, self._config.application_id, changelogs, self._plan.fingerprint)
        self._progress("writing results")
        written = self._write(SINK)
        self._progress("writing state")
        changelog_rows = self._write(CHANGELOG)
        self._progress("committing offsets")
        offsets = self._plan.offsets(self._metadata)
        self._admin.commit(self._config.application_id, offsets)
        withdraw_note(self._admin, self._config.application_id, changelogs)
        committed = {partition: offset.offset for partition, offset in offsets.items()}
        seconds = time.monotonic() - begun
        stages = len(self._plan.stages)
        return BackfillReport(self._read, self._dropped, written, changelog_rows, committed, stages, seconds)

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
        with _causes(f"{_named(stage)} failed over history"):
            # Kept on disk without its lineage: user functions must not run twice for one result.
            results = ordered.mapInArrow(host.run, OUTPUT_SCHEMA).localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
        self._results.append((stage.shuffles, results))

    def _inputs(self, stage: Stage) -> list[DataFrame | None]:
        inputs = [records_of(self._spark, self._reader, stage.records)]
        for shuffles, results in self._results:
            if topics := stage.repartition_topics & shuffles:
                inputs.append(shuffled(results, sorted(topics)))
        if not any(frame is not None for frame in inputs):
            return []
        for store, ranges in stage.changelogs.items():
            inputs.append(state_of(self._spark, self._reader, store, ranges, unfinished=False))
        for store, ranges in stage.unfinished.items():
            inputs.append(state_of(self._spark, self._reader, store, ranges, unfinished=True))
        return inputs

    def _take_report(self, row: Row) -> None:
        if row["kind"] == OFFSET:
            self._metadata[TopicPartition(row["topic"], row["partition"])] = row["value"].decode()
        elif row["kind"] == DROPPED:
            self._dropped += row["sequence"]
        elif row["topic"] not in self._plan.topics.repartition:
            self._read[row["topic"]] += row["sequence"]

    def _changelog_ends(self) -> dict[TopicPartition, int]:
        """Returns the end offset of each changelog, before any rows of an unfinished backfill."""
        return {
            partition: offsets.end
            for stage in self._plan.stages
            for ranges, unfinished in ((stage.changelogs[store], stage.unfinished[store]) for store in stage.changelogs)
            for partition, offsets in ranges.items()
            if partition in unfinished
        }

    def _write(self, kind: str) -> dict[str, int]:
        with _causes("the backfill cannot write to Kafka; run it again"):
            return dict(write_records(self._rows(kind), self._clients))

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


@contextmanager
def _causes(what: str) -> Iterator[None]:
    """Turn Spark's report of an exception in a worker into one sentence that names what was raised there."""
    try:
        yield
    except PySparkException as error:
        found = _CAUSE.findall(str(error))
        cause = found[-1] if found else str(error).partition("\n")[0]
        raise StreamsError(f"{what}: {cause}") from error
