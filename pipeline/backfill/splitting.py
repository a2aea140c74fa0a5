"""Splits the tasks of a stage into parts of their records, which run at the same time. Pure.

If no operator remembers anything, the results of a part depend on its records alone. Those of a task's parts, one
behind the other, are then those of the task. The parts depend on the offsets alone, so that a process with other cores
can continue them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.common.config import StreamsConfig
from penstock.common.extractors import FailOnInvalidTimestamp
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.pipeline.backfill.plan import Stage
from penstock.pipeline.task_hosts.global_topics import may_look_into_global_stores
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topology import ProcessorNode

RECORDS_PER_PART = 250_000


class Part(NamedTuple):
    """Tasks that run together, whole, or part ``number`` of a single one, which has the records of these offsets."""

    tasks: tuple[int, ...]
    number: int
    records: Ranges


def parts_of(stage: Stage, config: StreamsConfig, most: int = RECORDS_PER_PART) -> list[Part]:
    """Returns the parts of ``stage``. Each has ``most`` offsets or fewer, if the tasks can be split."""
    if stage.inner_topics:
        return [Part(tuple(range(stage.tasks)), 0, stage.records)]
    if why_whole(stage, config) is not None:
        return [Part((task,), 0, stage.records) for task in range(stage.tasks)]
    return [part for task in range(stage.tasks) for part in _parts_of_task(stage, task, most)]


def _parts_of_task(stage: Stage, task: int, most: int) -> Iterator[Part]:
    for at, offsets in stage.records.items():
        if at.partition == task:
            begins = range(offsets.begin, max(offsets.end, offsets.begin + 1), most)
            for number, begin in enumerate(begins):
                own = OffsetRange(begin, min(begin + most, offsets.end))
                yield Part((task,), number, {at: own})


def why_whole(stage: Stage, config: StreamsConfig) -> str | None:
    """Returns the reason why tasks of ``stage`` are not split; None if they can be."""
    processors = [node.operator for sub in stage.subtopologies for node in sub.nodes if isinstance(node, ProcessorNode)]
    if any(sub.stores for sub in stage.subtopologies):
        return "it has state"
    if any(operator.runs_user_objects or operator.wrapped for operator in processors):
        return "a processor of the user's may remember records"
    if any(map(may_look_into_global_stores, stage.subtopologies)):
        return "each part would read the global stores"
    sources = TaskProgram.of(stage.subtopologies, config).sources
    if stage.repartition_topics or len(sources) != 1:
        return "it merges records"
    if any(type(source.extractor) is not FailOnInvalidTimestamp for source in sources.values()):
        return "its timestamp extractor sees the times of earlier records"
    return None


def unfinished(parts: Sequence[Part], done: set[tuple[int, int]]) -> list[Part]:
    """Returns those of ``parts`` that are not ``done``: pairs of a task and the number of its part."""
    return [part for part in parts if not any((task, part.number) in done for task in part.tasks)]
