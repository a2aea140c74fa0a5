"""Plans a backfill before Spark starts: finds the offsets that each stage reads, and refuses what cannot be done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from penstock.common.calls_at_once import is_remote
from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.common.shown import counted
from penstock.kafka.backfill_note import fingerprint
from penstock.kafka.contracts import Admin, RecordConsumer
from penstock.pipeline.backfill.bounds import WHOLE, Bounds
from penstock.pipeline.backfill.offsets_now import OffsetLookUp, OffsetsNow
from penstock.pipeline.backfill.order import StageSubtopologies, in_order
from penstock.pipeline.backfill.unrolling import UnrolledPass, unrolled
from penstock.pipeline.reading.kafka_history import kafka_ranges
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.task_hosts.cycle_pass import MOST_TOPICS, CyclePass
from penstock.tasks.calls.order import unwrapped
from penstock.tasks.program import Changelog, TaskProgram
from penstock.topology.physical.operators.calls import CallOperator
from penstock.topology.physical.task_plan import SubtopologyTasks
from penstock.topology.physical.topic_plan import TopicPlan
from penstock.topology.physical.topology import SinkNode, Subtopology, Topology, internal_topic


@dataclass(frozen=True)
class Stage:
    """One sub-topology, or those of a cycle: runs as one Spark job, after those that write its repartition topics.

    ``repartition_topics`` are those that it reads, ``shuffles`` those that it writes, and ``inner_topics`` those by
    which the sub-topologies of a cycle write to each other if they run together; if they run in passes, each pass is a
    stage, ``cycle``, which need not read all. ``tasks``: the largest number that one of them has.

    ``changelogs`` maps each store to the rows that make its state as of the committed offsets, and ``unfinished`` to
    the rows after them, which an unfinished backfill wrote.
    """

    subtopologies: tuple[Subtopology, ...]
    tasks: int
    records: Ranges
    repartition_topics: frozenset[str]
    shuffles: frozenset[str]
    inner_topics: frozenset[str]
    changelogs: Mapping[str, Ranges]
    unfinished: Mapping[str, Ranges]
    cycle: CyclePass | None = None


@dataclass(frozen=True)
class BackfillPlan:
    """Stages in the order in which they run, and what is committed when all are done."""

    stages: tuple[Stage, ...]
    topics: TopicCounts
    committed: Mapping[TopicPartition, CommittedOffset]
    until: Mapping[TopicPartition, int]
    """Offset at which the live application continues, for every partition that some task reads."""
    fingerprint: str
    """Fingerprint of the committed offsets from which this plan starts."""
    global_records: Ranges
    """All records in the topics of global stores: read before the first record, as when the application starts."""
    notes: tuple[str, ...] = ()
    """Sentences that people should read before the backfill begins."""
    changelogs_now: Ranges = field(default_factory=dict)
    """The rows with which recomputed state is compared."""

    @property
    def changelog_ends(self) -> dict[TopicPartition, int]:
        """The end offset of each changelog, before any rows of an unfinished backfill."""
        return {
            partition: offsets.end
            for stage in self.stages
            for ranges, unfinished in ((stage.changelogs[store], stage.unfinished[store]) for store in stage.changelogs)
            for partition, offsets in ranges.items()
            if partition in unfinished
        }

    @property
    def read_topics(self) -> set[str]:
        """The names of all topics that are read: sources, changelogs and those of global stores."""
        of_stages = (stage.records.keys() for stage in self.stages)
        of_stores = (ranges.keys() for stage in self.stages for ranges in stage.changelogs.values())
        return {at.topic for partitions in (*of_stages, *of_stores, self.global_records.keys()) for at in partitions}

    def offsets(self, metadata: Mapping[TopicPartition, str]) -> dict[TopicPartition, CommittedOffset]:
        """Returns the offsets to commit when all stages are done. The tasks know their partitions' times, ``metadata``.
        They do not know the ends of the ranges: compaction and transactions leave offsets without records."""
        offsets = {}
        for partition, end in self.until.items():
            before = self.committed.get(partition, CommittedOffset(0))
            offsets[partition] = CommittedOffset(max(end, before.offset), metadata.get(partition, before.metadata))
        return offsets


def plan_backfill(
    topology: Topology,
    config: StreamsConfig,
    topics: TopicPlan,
    admin: Admin,
    consumer: RecordConsumer,
    source: OffsetLookUp | None = None,
    bounds: Bounds = WHOLE,
) -> BackfillPlan:
    """Plan a backfill by the offsets that Kafka reports. ``source``: None looks offsets up in Kafka, without times.

    Raises ApplicationStateError if the application is running, or has left records in a repartition topic, or if there
    is state but no committed offset that shows how old it is, or if ``bounds`` would count records twice; ConfigError
    for bounds that cannot be.
    """
    refuse_if_running(config, admin)
    source = source or OffsetLookUp(partial(kafka_ranges, consumer), _without_times)
    now = OffsetsNow(topology, config, topics, admin, consumer, source, bounds)
    _refuse_unprocessed(topics, now)
    planner = _Planner(config, topics, now)
    return BackfillPlan(
        tuple(map(planner.stage, stage_shapes(topology, config, topics, now.counts))),
        now.counts,
        now.committed,
        {partition: now.until(partition) for partition in now.sources},
        now.fingerprint,
        now.global_records(),
        tuple(now.notes),
        now.changelogs_now,
    )


def _without_times(partitions: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
    raise ConfigError("this source of history cannot look up times: give offsets")


def refuse_if_running(config: StreamsConfig, admin: Admin) -> None:
    """Raise ApplicationStateError while the application's group has members."""
    if members := admin.group_members(config.application_id):
        raise ApplicationStateError(
            f"application {config.application_id!r} runs, or was stopped a short time ago: its group has "
            f"{counted(members, 'member')}. If it runs, stop it with 'penstock stop {config.application_id} "
            "--leave-group', after which a backfill can begin at once. Otherwise the members of a stopped application "
            "leave when their session.timeout.ms (45 s by default) has passed: then run the backfill again"
        )


def refuse_if_moved(config: StreamsConfig, admin: Admin, plan: BackfillPlan) -> None:
    """Raise ApplicationStateError if the application has committed other offsets than those that ``plan`` begins at."""
    if fingerprint(plan.until, admin.committed(config.application_id)) != plan.fingerprint:
        raise ApplicationStateError(
            f"application {config.application_id!r} has committed offsets since the backfill began: it ran meanwhile, "
            "and nothing was handed over. Stop it, and run the backfill again without --resume: it begins at the "
            "application's present offsets"
        )


def _refuse_calls_to_ray(topology: Topology) -> None:
    for node in (node for sub in topology.subtopologies for node in sub.nodes):
        operator = unwrapped(node)
        if isinstance(operator, CallOperator) and any(is_remote(each.function) for each in operator.functions):
            raise ConfigError(
                f"operator {node.name} calls a method of a Ray actor, and Spark's executors are outside Ray: for a "
                f"backfill or an audit, give {operator.call} a coroutine function or a plain function that does the "
                "same work"
            )


def stage_shapes(
    topology: Topology, config: StreamsConfig, topics: TopicPlan, counts: TopicCounts, in_passes: bool = True
) -> list[Stage]:
    """Returns the stages of a topology in the order in which they run, without any offsets. ``in_passes``: cycles run
    in passes, if they can. Raises ConfigError if Spark's executors cannot run the topology."""
    _refuse_calls_to_ray(topology)
    tasks = {sub.id: sub for sub in topics.tasks.subtopologies}

    def prefixed(names: Iterable[str]) -> frozenset[str]:
        return frozenset(internal_topic(config.application_id, name) for name in names)

    def shape(planned: StageSubtopologies) -> Stage:
        mine = [tasks[sub.id] for sub in planned.subtopologies]
        read = frozenset(topic for each in mine for topic in each.topics) & counts.repartition
        most = max(each.tasks for each in mine)
        return Stage(planned.subtopologies, most, {}, read, prefixed(planned.written), prefixed(planned.inner), {}, {})

    def passes(planned: StageSubtopologies) -> list[Stage]:
        found = unrolled(planned) if planned.inner and in_passes else None
        whole = shape(planned)
        outside = tuple(sorted(topic for topic in _topics_of(config, whole) - whole.inner_topics))
        if found is None or len(outside) > MOST_TOPICS:
            return [whole]
        return [_of_pass(config, whole, outside, number, found, tasks) for number in range(len(found))]

    return [stage for planned in in_order(topology) for stage in passes(planned)]


def _of_pass(
    config: StreamsConfig,
    whole: Stage,
    outside: tuple[str, ...],
    number: int,
    passes: Sequence[UnrolledPass],
    tasks: Mapping[int, SubtopologyTasks],
) -> Stage:
    """Returns the stage of pass ``number`` over the cycle of the stage ``whole``."""
    it = passes[number]
    writes = frozenset(internal_topic(config.application_id, topic) for topic in it.writes)
    inner = tuple(internal_topic(config.application_id, topic) for each in passes for topic in sorted(each.writes))
    cycle = CyclePass(number + 1, len(passes), outside, inner, writes, it.partial)
    stage = replace(
        whole,
        subtopologies=(it.subtopology,),
        tasks=tasks[it.subtopology.id].tasks,
        inner_topics=frozenset(),
        cycle=cycle,
    )
    read = _topics_of(config, stage) & whole.repartition_topics
    leaving = frozenset[str]() if it.partial else whole.shuffles & _written_by(config, it.subtopology)
    return replace(stage, repartition_topics=read, shuffles=writes | leaving - whole.inner_topics)


def _topics_of(config: StreamsConfig, stage: Stage) -> frozenset[str]:
    """Returns the topics that the sub-topologies of ``stage`` read, by their names in Kafka."""
    sources = (source for sub in stage.subtopologies for source in sub.sources)
    return frozenset(
        internal_topic(config.application_id, topic) if source.internal else topic
        for source in sources
        for topic in source.topics
    )


def _written_by(config: StreamsConfig, sub: Subtopology) -> frozenset[str]:
    return frozenset(
        internal_topic(config.application_id, node.topic)
        for node in sub.nodes
        if isinstance(node, SinkNode) and node.internal and isinstance(node.topic, str)
    )


class _Planner:
    """Gives the stages of a plan their offsets."""

    def __init__(self, config: StreamsConfig, topics: TopicPlan, now: OffsetsNow) -> None:
        self._config = config
        self._now = now
        self._counts = now.counts
        self._tasks = {sub.id: sub for sub in topics.tasks.subtopologies}

    def stage(self, shape: Stage) -> Stage:
        """Returns the stage with the offsets that it reads and restores."""
        mine = [self._tasks[sub.id] for sub in shape.subtopologies]
        counts = {topic: count for tasks in mine for topic, count in tasks.topics.items()}
        if shape.cycle is not None:  # perhaps only a part of its sub-topology
            topics = _topics_of(self._config, shape)
            counts = {topic: count for topic, count in counts.items() if topic in topics}
        read = [
            TopicPartition(topic, number)
            for topic, count in counts.items()
            if topic not in self._counts.repartition
            for number in range(count)
        ]
        changelogs: dict[str, Ranges] = {}
        unfinished: dict[str, Ranges] = {}
        for sub, tasks in zip(shape.subtopologies, mine, strict=True):
            for store, changelog in TaskProgram.of([sub], self._config).changelogs.items():
                changelogs[store], unfinished[store] = self._history(changelog, tasks)
        records = {partition: self._now.records(partition) for partition in read}
        return replace(shape, records=records, changelogs=changelogs, unfinished=unfinished)

    def _history(self, changelog: Changelog, tasks: SubtopologyTasks) -> tuple[Ranges, Ranges]:
        state: dict[TopicPartition, OffsetRange] = {}
        unfinished: dict[TopicPartition, OffsetRange] = {}
        topic, now = changelog.topic, self._now
        for number in range(self._counts.partitions[topic]):
            partition = TopicPartition(topic, number)
            begin, end = now.range(partition).begin, now.range(partition).end
            if changelog.is_source_topic:
                # The input topic itself restores the table: what is not processed yet is no state.
                state[partition] = OffsetRange(begin, now.position(partition))
                continue
            if now.recompute:
                state[partition] = unfinished[partition] = OffsetRange(begin, begin)
                continue
            noted = now.noted(partition)
            if noted is None and not self._ever_committed(tasks, number) and now.has_records(partition, begin, end):
                raise ApplicationStateError(
                    f"changelog {topic!r} holds rows, but application {self._config.application_id!r} has committed "
                    "no offset that shows their age: run the application until it commits, or delete the topic"
                )
            split = end if noted is None else min(max(noted, begin), end)
            state[partition] = OffsetRange(begin, split)
            unfinished[partition] = OffsetRange(split, end)
        return state, unfinished

    def _ever_committed(self, tasks: SubtopologyTasks, number: int) -> bool:
        return any(TopicPartition(topic, number) in self._now.committed for topic in tasks.topics)


def _refuse_unprocessed(topics: TopicPlan, now: OffsetsNow) -> None:
    for partition in now.sources:
        position, end = now.position(partition), now.range(partition).end
        if partition.topic in topics.tasks.repartition_topics and now.has_records(partition, position, end):
            raise ApplicationStateError(
                f"repartition topic {partition.topic!r}, partition {partition.partition}, holds up to "
                f"{end - position} records that the application has not processed yet: start it, "
                "let it catch up, stop it, and run the backfill again"
            )
