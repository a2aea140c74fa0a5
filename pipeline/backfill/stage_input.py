"""The input of a stage's tasks: source topics from history, repartition topics from the files of earlier stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from typing_extensions import override

from penstock.common.config import StreamsConfig
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.offset_ranges import Ranges
from penstock.common.records import RecordBatch
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.row_files import Files, placed_in, written_to
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.reading.contracts import HistorySource, OpenHistory
from penstock.pipeline.reading.due_records import DueBatch
from penstock.pipeline.reading.merge import TimedBatches, merged, merged_writers
from penstock.pipeline.reading.merge_cycle import merged_cycle, placed
from penstock.pipeline.task_hosts.contracts import RestoredRows, StageInput, TaskInput
from penstock.pipeline.task_hosts.cycle_pass import CyclePass
from penstock.pipeline.task_hosts.event_times import EventTimes
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topology import Subtopology


@dataclass(frozen=True)
class ChangelogRows:
    """The rows of a store's changelog in ``source``. ``unfinished``: an unfinished backfill wrote them."""

    store: str
    source: HistorySource
    ranges: Ranges
    unfinished: bool


@dataclass(frozen=True)
class HistoryInput(StageInput):
    """The input of the tasks of a stage.

    ``records``: of the source topics, in ``history``. ``shuffled``: the files of earlier stages in ``location``, which
    have rows for ``repartition_topics``. ``subtopologies``: those that read them, from what is ``committed`` on.
    ``cycle``: the pass, if the stage is one over a cycle.
    """

    subtopologies: tuple[Subtopology, ...]
    config: StreamsConfig
    committed: Mapping[TopicPartition, CommittedOffset]

    history: HistorySource
    records: Ranges
    changelogs: Sequence[ChangelogRows]
    location: ObjectLocation
    shuffled: Sequence[Files]
    repartition_topics: frozenset[str]
    cycle: CyclePass | None = None

    @override
    def open(self, tasks: Sequence[int]) -> TaskInput:
        return _HistoryOfTasks(self, tasks)


class _HistoryOfTasks(TaskInput):
    def __init__(self, stage: HistoryInput, tasks: Sequence[int]) -> None:
        self._stage = stage
        self._tasks = tasks
        self._open: OpenHistory | None = None

    @override
    def restored(self) -> Iterator[RestoredRows]:
        for changelog in self._stage.changelogs:
            ranges = self._own(changelog.ranges)
            if ranges:
                with closing(changelog.source.open(ranges)) as opened:
                    for at in sorted(ranges):
                        for rows in opened.batches(at):
                            yield RestoredRows(at.partition, changelog.store, rows, changelog.unfinished)

    @override
    def chunks(self) -> Iterator[Chunk]:
        partitions = self._partitions()
        cycle = self._stage.cycle
        if cycle is None:
            return merged([partitions[at] for at in sorted(partitions)])
        outside = [self._placed(cycle, at, partitions[at]) for at in sorted(partitions)]
        return merged_cycle([*outside, *self._of_passes(cycle)])

    def _placed(self, cycle: CyclePass, at: TopicPartition, batches: TimedBatches) -> Iterator[DueBatch]:
        offsets = self._stage.records.get(at)
        return placed(batches, cycle.place(at), None if offsets is None else offsets.begin)

    def _partitions(self) -> dict[TopicPartition, TimedBatches]:
        """Returns the records of each partition, except those that other passes over the cycle wrote."""
        stage = self._stage
        partitions = {at: TimedBatches(batches) for at, batches in self._shuffled().items()}
        records = self._own(stage.records)
        if records:
            opened = self._open = stage.history.open(records)
            program = TaskProgram.of(stage.subtopologies, stage.config)
            for at in records:
                times = EventTimes(program, at, stage.committed)
                partitions[at] = TimedBatches(opened.batches(at), times.of)
        return partitions

    @override
    def close(self) -> None:
        if self._open is not None:
            self._open.close()

    def _own(self, ranges: Ranges) -> Ranges:
        return {at: offsets for at, offsets in ranges.items() if offsets and at.partition in self._tasks}

    def _shuffled(self) -> dict[TopicPartition, Iterator[RecordBatch]]:
        stage = self._stage
        if not stage.shuffled:
            return {}
        inner = () if stage.cycle is None else stage.cycle.inner
        objects = stage.location.open()
        topics = stage.repartition_topics.difference(inner)
        targets = [TopicPartition(topic, task) for topic in topics for task in self._tasks]
        return {at: merged_writers(written_to(objects, stage.shuffled, at)) for at in targets}

    def _of_passes(self, cycle: CyclePass) -> Iterator[Iterator[DueBatch]]:
        """Yields what each task of an earlier pass wrote."""
        stage = self._stage
        objects = stage.location.open()
        for topic in cycle.written_before(stage.repartition_topics):
            for task in self._tasks:
                yield from placed_in(objects, stage.shuffled, TopicPartition(topic, task))
