"""Plans an audit before the application is asked for anything: what is recomputed, and the order of images."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.pipeline.backfill.offsets_now import topic_counts
from penstock.pipeline.backfill.plan import BackfillPlan, Stage, stage_shapes
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.state.builders import AnyStoreBuilder
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topic_plan import TopicPlan
from penstock.topology.physical.topology import Topology


@dataclass(frozen=True)
class AuditWave:
    """Tasks whose images are taken together: see :class:`~penstock.cluster.queries.audit_point.Wave`."""

    tasks: frozenset[TaskId]
    reads: frozenset[TopicPartition]
    intake: frozenset[TopicPartition]


@dataclass(frozen=True)
class AuditPlan:
    """The stages of the recomputation, without offsets, and what the tasks read and keep. ``together``: the same, with
    the sub-topologies of each cycle in one."""

    shapes: tuple[Stage, ...]
    together: tuple[Stage, ...]
    counts: TopicCounts
    sources: Mapping[TaskId, frozenset[TopicPartition]]
    programs: Mapping[int, TaskProgram]
    global_partitions: frozenset[TopicPartition]
    not_compared: Mapping[str, str]
    """The stores that no audit can compare, and the reason."""

    @cached_property
    def from_outside(self) -> frozenset[TopicPartition]:
        """The partitions of source topics: all that is read, except repartition topics."""
        read = frozenset[TopicPartition]().union(*self.sources.values())
        return frozenset(at for at in read if at.topic not in self.counts.repartition)

    @property
    def waves(self) -> list[AuditWave]:
        """The order in which images are taken: each task after those that write what it reads."""
        waves = []
        for stage in self.together:
            subs = {sub.id for sub in stage.subtopologies}
            tasks = frozenset(task for task in self.sources if task.subtopology in subs)
            read = frozenset[TopicPartition]().union(*(self.sources[task] for task in tasks))
            intake = read & self.from_outside if stage.shuffles else frozenset[TopicPartition]()
            waves.append(AuditWave(tasks, read - self.from_outside, intake))
        return waves

    @property
    def builders(self) -> dict[int, dict[str, AnyStoreBuilder]]:
        """The stores of each sub-topology that are compared, by name."""
        return {sub: dict(program.stores) for sub, program in self.programs.items()}

    def for_stores(self, tasks: Collection[TaskId]) -> AuditPlan:
        """Returns the plan without the stages that no store of ``tasks`` needs: those after the last one with such a
        task."""
        subs = {task.subtopology for task in tasks}
        needed = [number for number, it in enumerate(self.shapes, 1) if subs & {sub.id for sub in it.subtopologies}]
        return replace(self, shapes=self.shapes[: max(needed, default=len(self.shapes))])

    def require_layouts(self, layouts: Mapping[TaskId, Mapping[str, str]]) -> None:
        """Raise ApplicationStateError if the stores have other rows than those of this program."""
        for task, stores in sorted(layouts.items()):
            builders = self.programs[task.subtopology].stores
            for store, layout in stores.items():
                mine = builders[store].layout if store in builders else "no store"
                if mine != layout:
                    raise ApplicationStateError(
                        f"the rows of store {store!r} of task {task} have the form {layout!r}, but {mine!r} in this "
                        "program: run the audit with the program of the application"
                    )

    def require_history(self, available: Ranges, offsets: Mapping[TopicPartition, int]) -> None:
        """Raise ApplicationStateError if records are gone from which the live stores were computed. ``offsets``: their
        ends; a partition without one had no record."""
        for at in sorted(self.from_outside):
            there, end = available[at], offsets.get(at, 0)
            if there.begin > 0 and (end > 0 or not offsets):
                raise ApplicationStateError(
                    f"partition {at.partition} of topic {at.topic!r} begins with offset {there.begin}: the records "
                    "before it are gone, and what they did to the stores cannot be computed again. Name an archive "
                    "that has them by --source, or give the topic a longer retention.ms"
                )
            if there.end < end:
                raise ApplicationStateError(
                    f"partition {at.partition} of topic {at.topic!r} ends with offset {there.end}, and the application "
                    f"has committed {end}: the topic was created again, or the source lacks its end"
                )

    def ranges(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetRange]:
        """Returns the records of all source topics up to ``offsets``."""
        return {at: OffsetRange(0, offsets.get(at, 0)) for at in self.from_outside}

    def at(self, offsets: Mapping[TopicPartition, int], global_records: Ranges) -> BackfillPlan:
        """Returns the plan of the recomputation up to ``offsets``: from the first record, with empty stores."""
        ranges = self.ranges(offsets)
        stages = tuple(replace(stage, records={at: ranges[at] for at in self._read_by(stage)}) for stage in self.shapes)
        return BackfillPlan(stages, self.counts, {}, {}, "", global_records)

    def _read_by(self, stage: Stage) -> list[TopicPartition]:
        subs = {sub.id for sub in stage.subtopologies}
        read = (at for task, sources in self.sources.items() if task.subtopology in subs for at in sources)
        topics = {topic for sub in stage.subtopologies for source in sub.sources for topic in source.topics}
        return sorted(at for at in self.from_outside.intersection(read) if stage.cycle is None or at.topic in topics)


def plan_audit(topology: Topology, config: StreamsConfig, topics: TopicPlan, existing: Mapping[str, int]) -> AuditPlan:
    """Returns the plan. Raises ConfigError if the results of the application depend on more than its records."""
    counts = topic_counts(topology, config, topics, existing)
    programs = {sub.id: TaskProgram.of([sub], config) for sub in topology.subtopologies if sub.sources}
    _require_determined(config, programs.values())
    global_partitions = frozenset(
        TopicPartition(topic, number) for topic in topology.global_topics for number in range(existing[topic])
    )
    not_compared = {
        store.name: "it is a global store, of which each stream actor has its own"
        for sub in topology.global_subtopologies
        for store in sub.stores
    }
    shapes = tuple(stage_shapes(topology, config, topics, counts))
    together = tuple(stage_shapes(topology, config, topics, counts, in_passes=False))
    return AuditPlan(shapes, together, counts, topics.tasks.partitions, programs, global_partitions, not_compared)


def _require_determined(config: StreamsConfig, programs: Iterable[TaskProgram]) -> None:
    if config.window_idle_advance_ms:
        raise ConfigError(
            "this application cannot be audited: window.idle.advance.ms is set, so its windows also close by the wall "
            "clock, and no record shows when"
        )
    for program in programs:
        for topic, source in program.sources.items():
            if source.offset_reset != "earliest":
                raise ConfigError(
                    f"this application cannot be audited: source {source.node} does not read topic {topic!r} from its "
                    f"beginning on (offset reset {source.offset_reset}), and no record shows where it began"
                )
