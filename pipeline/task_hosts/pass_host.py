"""The Spark executor as host of a pass over a sub-topology of a cycle: its tasks run by themselves, like any others."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
from typing_extensions import override

from penstock.common.ids import TaskId
from penstock.common.records import Headers, RecordBatch, joined
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.task_hosts.collector import Inner, PartitionOf, Rows, RowsOfPass
from penstock.pipeline.task_hosts.contracts import EndRow, TaskEnd, TaskEndStores
from penstock.pipeline.task_hosts.cycle_host import topics_apart
from penstock.pipeline.task_hosts.cycle_pass import CyclePass
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost, TaskRun, program_of
from penstock.tasks.contracts import Send
from penstock.tasks.program import TaskProgram
from penstock.tasks.wiring import Store

_AFTER_ALL = (1 << 63) - 1
"""The time of what comes after all records."""
_BEFORE_ALL_PLACES = -1


@dataclass(frozen=True)
class PassHost(TaskHost):
    """Runs the tasks of one pass over ``subtopology``, part of a cycle.

    Records come in the order of the cycle: those that earlier passes wrote come behind the record that led to them, and
    before the next one. So the tasks do what they do if all of the cycle's tasks wait for each other
    (:class:`~penstock.pipeline.task_hosts.cycle_host.CycleHost`).
    """

    cycle: CyclePass

    @override
    def _task(self, program: TaskProgram, task_id: TaskId, global_stores: Mapping[str, Store]) -> TaskRun:
        settings = replace(self.settings, at_end=_KeepsNothing()) if self.cycle.partial else self.settings
        return PassRun(settings, program, task_id, global_stores, self.cycle, self._batched)

    @cached_property
    def _batched(self) -> frozenset[str]:
        """The topics whose records need not come one by one: they lead to no record of a topic that the pass writes."""
        program = program_of(self.subtopology, self.settings.config)
        return topics_apart(program, self.cycle.writes) if self.cycle.writes else frozenset(program.sources)

    @override
    def _process(self, task: TaskRun, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        assert isinstance(task, PassRun)
        yield from task.process_chunk(chunk)

    @override
    def _finish(self, task: TaskRun) -> Iterator[pa.RecordBatch]:
        assert isinstance(task, PassRun)
        yield from task.commit_at_end()
        if not self.cycle.partial:
            yield from task.hand_over()


class PassRun(TaskRun):
    """One task of a pass."""

    def __init__(
        self,
        settings: HostSettings,
        program: TaskProgram,
        task_id: TaskId,
        global_stores: Mapping[str, Store],
        cycle: CyclePass,
        batched: Collection[str],
    ) -> None:
        self._written = _Written(cycle)
        super().__init__(settings, program, task_id, global_stores, self._written)
        self._batched = batched

    def process_chunk(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Process records in the order of the cycle, and commit if that is due."""
        batches = [joined(own) if own else None for own in chunk.partitions]
        taken = [0] * len(batches)
        after_all = bisect_left(chunk.due, _AFTER_ALL)
        for index, begin, end in runs(chunk.order, after_all):
            batch, first = batches[index], taken[index]
            assert batch is not None
            if chunk.due[begin] == _AFTER_ALL and self._written.due != _AFTER_ALL:
                yield from self._release_caches()
            taken[index] = last = first + end - begin
            if batch.partition.topic in self._batched:
                self._written.due, self._written.place = chunk.due[end - 1], chunk.places[end - 1]
                yield from self._take(batch, first, last)
                continue
            for number in range(end - begin):
                self._written.due, self._written.place = chunk.due[begin + number], chunk.places[begin + number]
                yield from self._take(batch, first + number, first + number + 1)
        yield from self.commit_if_full()

    def commit_at_end(self) -> Iterator[pa.RecordBatch]:
        """Make the last commit. What caches release then comes after all records of the cycle."""
        self._written.due = _AFTER_ALL
        yield from self.commit()

    def _release_caches(self) -> Iterator[pa.RecordBatch]:
        """Commit before the records that caches of earlier passes have released. The tasks of a cycle commit together,
        and each reads what the commits of the others have sent only after that."""
        self._written.due, self._written.place = _AFTER_ALL, _BEFORE_ALL_PLACES
        yield from self.commit()

    def _take(self, batch: RecordBatch, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        partition, headers = batch.partition, batch.headers
        numbers = self.numbered(partition.topic, end - begin)
        # As on the host of a single task: the sequence numbers of a shuffle are no offsets.
        offsets = numbers if partition.topic in self._repartition else batch.offsets[begin:end]
        if end == begin + 1 and (headers is None or not headers[begin]):
            yield from self.take_one(
                partition, batch.keys[begin], batch.values[begin], batch.timestamps[begin], offsets[0]
            )
            return
        own = None if headers is None else headers[begin:end]
        yield from self.take(
            RecordBatch(
                partition,
                batch.keys[begin:end],
                batch.values[begin:end],
                batch.timestamps[begin:end],
                offsets,
                own if own and any(own) else None,
            )
        )


def runs(order: Sequence[int], cut: int) -> Iterator[tuple[int, int, int]]:
    """Yields each run of equal numbers in ``order``: the number, and the begin and end of the run. No run crosses
    ``cut``."""
    numbers = np.asarray(order)
    changes = np.flatnonzero(np.diff(numbers)) + 1
    for begin, end in pairwise(sorted({0, cut, *changes.tolist(), len(numbers)})):
        yield order[begin], begin, end


class _Written(Inner):
    """The records that a task writes for later passes. ``due`` and ``place`` are those of the current record."""

    def __init__(self, cycle: CyclePass) -> None:
        self.topics = frozenset(cycle.inner)
        self.due = self.place = -1
        self._rows = {topic: RowsOfPass(topic) for topic in cycle.writes}

    @override
    def sender(self, topic: str, partition_of: PartitionOf) -> Send:
        rows = self._rows.get(topic)

        def send(
            topic: str,
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers | None = None,
            partition: int = -1,
        ) -> None:
            assert rows is not None
            rows.partitions.append(partition if partition >= 0 else partition_of(key))
            rows.keys.append(key)
            rows.values.append(value)
            rows.timestamps.append(timestamp)
            rows.headers.append(headers)
            rows.due.append(self.due)
            rows.places.append(self.place)

        return _ignore if rows is None else send

    @override
    def rows(self) -> Collection[Rows]:
        return self._rows.values()


def _ignore(*record: object) -> None:
    """Send nothing: an earlier pass has written it."""


class _KeepsNothing(TaskEnd):
    """The end of a task of a partial pass: a later one hands over its state."""

    @override
    def rows(self, task: TaskId, stores: TaskEndStores) -> Iterator[EndRow]:
        return iter(())
