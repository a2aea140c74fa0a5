"""Plans a backfill before Spark starts: finds the offsets that each stage reads, and refuses what cannot be done."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, BrokerUnreachableError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.log import logger
from penstock.common.shown import counted
from penstock.kafka.backfill_note import fingerprint, read_note
from penstock.kafka.contracts import Admin, RecordConsumer
from penstock.pipeline.backfill.order import StageSubtopologies, in_order
from penstock.pipeline.offset_ranges import OffsetRange, Ranges
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.tasks.program import Changelog, TaskProgram
from penstock.topology.physical.task_plan import SubtopologyTasks
from penstock.topology.physical.topic_plan import TopicPlan
from penstock.topology.physical.topology import Subtopology, Topology, internal_topic

_PATIENCE_S = 120.0
_LOOK_S = 0.1


@dataclass(frozen=True)
class Stage:
    """One sub-topology, or those of a cycle: runs as one Spark job, after those that write its repartition topics.

    ``repartition_topics`` are those that it reads, ``shuffles`` those that it writes, and ``inner_topics`` those by
    which the sub-topologies of a cycle write to each other. ``tasks``: the largest number that one of them has.

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

    def offsets(self, metadata: Mapping[TopicPartition, str]) -> dict[TopicPartition, CommittedOffset]:
        """Returns the offsets to commit when all stages are done. The tasks know their partitions' times, ``metadata``.
        They do not know the ends of the ranges: compaction and transactions leave offsets without records."""
        offsets = {}
        for partition, end in self.until.items():
            before = self.committed.get(partition, CommittedOffset(0))
            offsets[partition] = CommittedOffset(max(end, before.offset), metadata.get(partition, before.metadata))
        return offsets


def plan_backfill(
    topology: Topology, config: StreamsConfig, topics: TopicPlan, admin: Admin, consumer: RecordConsumer
) -> BackfillPlan:
    """Plan a backfill by the offsets that Kafka reports. Raises ApplicationStateError if the application is running, or
    has left records in a repartition topic, or if there is state but no committed offset that shows how old it is."""
    refuse_if_running(config, admin)
    reader = _Reader(topology, config, topics, admin, consumer)
    _refuse_unprocessed(topics, reader)
    stages = tuple(map(reader.stage, in_order(topology)))
    return BackfillPlan(
        stages,
        reader.counts,
        reader.committed,
        {partition: reader.ends[partition] for partition in reader.sources},
        reader.fingerprint,
        reader.global_records(),
    )


def refuse_if_running(config: StreamsConfig, admin: Admin) -> None:
    """Raise ApplicationStateError while the application's group has members."""
    if members := admin.group_members(config.application_id):
        raise ApplicationStateError(
            f"application {config.application_id!r} runs, or was stopped a short while ago: its group has "
            f"{counted(members, 'member')}. One that runs is stopped by 'penstock stop {config.application_id} "
            "--leave-group', after which a backfill can begin at once. Otherwise the members of a stopped application "
            "leave when their session.timeout.ms (45 s by default) has passed: then run the backfill again"
        )


class _Reader:
    """The answers of Kafka that a plan needs, each asked for once."""

    def __init__(
        self, topology: Topology, config: StreamsConfig, topics: TopicPlan, admin: Admin, consumer: RecordConsumer
    ) -> None:
        self._config = config
        self._consumer = consumer
        self._tasks = {sub.id: sub for sub in topics.tasks.subtopologies}
        existing = admin.topics()
        repartition = frozenset(internal_topic(config.application_id, name) for name in topology.repartition_topics)
        self.counts = TopicCounts(existing, repartition, frozenset(t.name for t in topics.internal) - repartition)
        self.sources = sorted({p for partitions in topics.tasks.partitions.values() for p in partitions})
        self.changelogs = sorted(
            TopicPartition(topic, number) for topic in self.counts.changelogs for number in range(existing[topic])
        )
        self._global = [
            TopicPartition(topic, number) for topic in topology.global_topics for number in range(existing[topic])
        ]
        everything = {*self.sources, *self.changelogs, *self._global}
        self.begins = consumer.fetch_beginning_offsets(everything)
        # If only committed records are read, these are before the first transaction that is open.
        self.ends = consumer.fetch_end_offsets(everything)
        self.committed = admin.committed(config.application_id)
        self.fingerprint = fingerprint(self.sources, self.committed)
        self._noted = read_note(admin, config.application_id, self.fingerprint)

    def global_records(self) -> Ranges:
        """Returns the ranges of all records in the topics of global stores."""
        return {partition: OffsetRange(self.begins[partition], self.ends[partition]) for partition in self._global}

    def position(self, partition: TopicPartition) -> int:
        """Returns the offset at which the application would continue."""
        begin = self.begins[partition]
        committed = self.committed.get(partition)
        if committed is None:
            return begin
        if committed.offset < begin:
            logger(__name__).warning(
                "records were removed before they were processed",
                partition=str(partition),
                committed=committed.offset,
                earliest=begin,
            )
        return max(begin, committed.offset)

    def stage(self, planned: StageSubtopologies) -> Stage:
        """Returns the stage of ``planned``, with the offsets and topics that it reads, writes and restores."""
        mine = [self._tasks[sub.id] for sub in planned.subtopologies]
        counts = {topic: count for tasks in mine for topic, count in tasks.topics.items()}
        read = [
            TopicPartition(topic, number)
            for topic, count in counts.items()
            if topic not in self.counts.repartition
            for number in range(count)
        ]
        changelogs: dict[str, Ranges] = {}
        unfinished: dict[str, Ranges] = {}
        for sub, tasks in zip(planned.subtopologies, mine, strict=True):
            for store, changelog in TaskProgram.of([sub], self._config).changelogs.items():
                changelogs[store], unfinished[store] = self._history(changelog, tasks)
        return Stage(
            planned.subtopologies,
            max(tasks.tasks for tasks in mine),
            {partition: OffsetRange(self.position(partition), self.ends[partition]) for partition in read},
            frozenset(counts) & self.counts.repartition,
            self._prefixed(planned.written),
            self._prefixed(planned.inner),
            changelogs,
            unfinished,
        )

    def _prefixed(self, topics: Iterable[str]) -> frozenset[str]:
        return frozenset(internal_topic(self._config.application_id, topic) for topic in topics)

    def _history(self, changelog: Changelog, tasks: SubtopologyTasks) -> tuple[Ranges, Ranges]:
        state: dict[TopicPartition, OffsetRange] = {}
        unfinished: dict[TopicPartition, OffsetRange] = {}
        topic = changelog.topic
        for number in range(self.counts.partitions[topic]):
            partition = TopicPartition(topic, number)
            begin = self.begins[partition]
            if changelog.is_source_topic:
                # The input topic itself restores the table: what is not processed yet is no state.
                state[partition] = OffsetRange(begin, self.position(partition))
                continue
            end = self.ends[partition]
            noted = self._noted.get(partition)
            if noted is None and not self._ever_committed(tasks, number) and self.has_records(partition, begin):
                raise ApplicationStateError(
                    f"changelog {topic!r} holds rows, but application {self._config.application_id!r} has committed "
                    "no offset that shows their age: run the application until it commits, or delete the topic"
                )
            split = end if noted is None else min(max(noted, begin), end)
            state[partition] = OffsetRange(begin, split)
            unfinished[partition] = OffsetRange(split, end)
        return state, unfinished

    def has_records(self, partition: TopicPartition, begin: int) -> bool:
        """Returns True if there are records from ``begin`` on. Offsets alone do not show that: the last transactions
        may have left only markers, and records that were aborted."""
        self._consumer.assign({partition: begin})
        deadline = time.monotonic() + _PATIENCE_S
        try:
            while self._consumer.position(partition) < self.ends[partition]:
                if self._consumer.poll(1, _LOOK_S):
                    return True
                if time.monotonic() > deadline:
                    raise BrokerUnreachableError(
                        f"partition {partition.partition} of {partition.topic!r} cannot be read: nothing has come for "
                        f"{_PATIENCE_S:.0f} s"
                    )
        finally:
            self._consumer.assign({})
        return False

    def _ever_committed(self, tasks: SubtopologyTasks, number: int) -> bool:
        return any(TopicPartition(topic, number) in self.committed for topic in tasks.topics)


def _refuse_unprocessed(topics: TopicPlan, reader: _Reader) -> None:
    for partition in reader.sources:
        position = reader.position(partition)
        if partition.topic in topics.tasks.repartition_topics and reader.has_records(partition, position):
            raise ApplicationStateError(
                f"repartition topic {partition.topic!r}, partition {partition.partition}, holds up to "
                f"{reader.ends[partition] - position} records that the application has not processed yet: start it, "
                "let it catch up, stop it, and run the backfill again"
            )
