"""``penstock backfill --explain``: the plan of a backfill in words, before Spark starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.offset_ranges import Ranges, size_of
from penstock.common.shown import counted
from penstock.pipeline.backfill.plan import BackfillPlan, Stage
from penstock.pipeline.backfill.run_stages import name_of
from penstock.pipeline.backfill.splitting import RECORDS_PER_PART, parts_of, why_whole
from penstock.topology.physical.topology import SinkNode

_MOST_PARTITIONS = 16

PlaceOf = Callable[[TopicPartition], str]
"""Returns the place that the records of a source partition are read from, in words."""


def explained(plan: BackfillPlan, config: StreamsConfig, place_of: PlaceOf) -> Iterator[str]:
    """Yields the lines of the explanation."""
    yield f"{counted(len(plan.stages), 'stage')}, {_count(_all_records(plan))} of source topics"
    for note in plan.notes:
        yield f"note: {note}"
    for number, stage in enumerate(plan.stages, 1):
        together = ", in one Spark partition" if stage.inner_topics else ""
        yield ""
        yield f"stage {number}: {name_of(stage)}, {counted(_tasks(stage), 'task')}{together}"
        for what, text in _of_stage(plan, number - 1, config, place_of):
            yield f"  {what:<9} {text}"
    if plan.global_records:
        yield ""
        topics = ", ".join(sorted({at.topic for at in plan.global_records}))
        yield f"global stores: {_count(plan.global_records)} of {topics}, read by each executor"


def _of_stage(plan: BackfillPlan, index: int, config: StreamsConfig, place_of: PlaceOf) -> Iterator[tuple[str, str]]:
    stage = plan.stages[index]
    for topic in sorted({at.topic for at in stage.records}):
        own = {at: offsets for at, offsets in stage.records.items() if at.topic == topic}
        places = ", ".join(sorted({place_of(at) for at in own}))
        yield "reads", f"{topic}: {_count(own)}, from {places}: {_ranges(own)}"
    for topic in sorted(stage.repartition_topics - stage.inner_topics):
        writers = [str(n) for n, other in enumerate(plan.stages, 1) if topic in other.shuffles - other.inner_topics]
        yield "reads", f"{topic}: what stage {' and '.join(writers) or 'none'} shuffles to it"
    for store, ranges in sorted(stage.changelogs.items()):
        offsets = size_of(ranges) + size_of(stage.unfinished[store])
        if offsets:
            again = size_of(stage.unfinished[store])
            unfinished = f", {again:,} of an unfinished backfill" if again else ""
            topics = ", ".join(sorted({at.topic for at in ranges}))
            yield "restores", f"{store}: {counted(offsets, 'offset')} of {topics}{unfinished}"
    yield from _skew(stage, config)
    for topic in sorted(stage.inner_topics):
        yield "inside", f"{topic}: written and read by this stage"
    for topic in sorted(stage.shuffles - stage.inner_topics):
        yield "shuffles", f"{topic}: {counted(plan.topics.partitions[topic], 'partition')}, never written to Kafka"
    if sinks := sorted(_sinks(stage)):
        yield "writes", ", ".join(sinks)


def _skew(stage: Stage, config: StreamsConfig) -> Iterator[tuple[str, str]]:
    per_task = offsets_per_task(stage)
    if not per_task:
        return
    total, (longest, most) = sum(per_task.values()), max(per_task.items(), key=lambda entry: (entry[1], entry[0]))
    if stage.inner_topics:
        yield "longest", f"all {total:,} offsets, one after the other: this is the least time of the stage"
        return
    mean = total / stage.tasks
    name = TaskId(stage.subtopologies[0].id, longest)
    skew = f"{most / mean:.1f} × the mean" if mean else "no records"
    yield "per task", f"{min(per_task.values()):,} to {counted(most, 'offset')}"
    reason = why_whole(stage, config)
    if reason is None and (parts := len(parts_of(stage, config))) > stage.tasks:
        yield "longest", f"task {name}: {counted(most, 'offset')} ({skew})"
        yield "split", f"{parts} parts of at most {RECORDS_PER_PART:,} offsets: all cores share a task"
        return
    yield "longest", f"task {name}: {counted(most, 'offset')} ({skew}): this is the least time of the stage"
    if reason is not None:
        yield "whole", f"no task is split: {reason}"


def offsets_per_task(stage: Stage) -> dict[int, int]:
    """Returns the number of offsets that each task reads and restores, without records that are shuffled to it: their
    number is not known."""
    counts: Counter[int] = Counter()
    for ranges in (stage.records, *stage.changelogs.values(), *stage.unfinished.values()):
        for at, offsets in ranges.items():
            counts[at.partition] += len(offsets)
    return dict(counts) if stage.records else {}


def _tasks(stage: Stage) -> int:
    return stage.tasks * len(stage.subtopologies)


def _sinks(stage: Stage) -> set[str]:
    sinks = (node for sub in stage.subtopologies for node in sub.nodes if isinstance(node, SinkNode))
    return {
        node.topic if isinstance(node.topic, str) else "topics that the program chooses for each record"
        for node in sinks
        if not node.internal
    }


def _ranges(ranges: Ranges) -> str:
    listed = [str(offsets) for _, offsets in sorted(ranges.items())]
    more = len(listed) - _MOST_PARTITIONS
    return ", ".join(listed[:_MOST_PARTITIONS]) + (f", and {more} partitions more" if more > 0 else "")


def _count(ranges: Ranges) -> str:
    """Returns the number of offsets as text. Compaction and transactions leave offsets without records."""
    return counted(size_of(ranges), "offset")


def _all_records(plan: BackfillPlan) -> Ranges:
    return {at: offsets for stage in plan.stages for at, offsets in stage.records.items()}
