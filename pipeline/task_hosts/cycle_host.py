"""The Spark executor as host of a cycle: all tasks of sub-topologies that write to each other, in one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, repeat

import pyarrow as pa

from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Headers, RecordBatch
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.task_hosts.collector import InnerTopics
from penstock.pipeline.task_hosts.contracts import RestoredRows, StageInput
from penstock.pipeline.task_hosts.stores import remove_left
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskRun, program_of
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, SourceNode, Subtopology


@dataclass(frozen=True)
class CycleHost:
    """Runs all tasks of ``subtopologies`` together.

    First come the rows that restore stores, then the records of all tasks, in the order of time. Before the next record
    is taken, all that the last one led to is read from ``inner_topics``: as in the live application, where a record has
    been answered when the next one arrives. If the tasks ran one after the other instead, the answers to all but the
    last update of a key would come too late, and be dropped.
    """

    subtopologies: tuple[Subtopology, ...]
    inner_topics: frozenset[str]
    settings: HostSettings

    def run(self, tasks: Sequence[int], given: StageInput) -> Iterator[pa.RecordBatch]:
        """Yields rows of ``OUTPUT_SCHEMA`` while the tasks of these numbers take their input together."""
        remove_left()
        with closing(given.open(tasks)) as records, closing(_Cycle(self)) as cycle:
            for restored in records.restored():
                cycle.restore(restored)
            for chunk in records.chunks():
                yield from cycle.process(chunk)
                yield from cycle.commit_where_full()
            yield from cycle.finish()


class _Cycle:
    """The tasks of a cycle, each made at the first row or record for it."""

    def __init__(self, host: CycleHost) -> None:
        self._settings, config = host.settings, host.settings.config
        self._programs = {sub.id: program_of(sub, config) for sub in host.subtopologies}
        programs = self._programs.items()
        self._reader = {topic: number for number, program in programs for topic in program.sources}
        self._apart = frozenset(topic for _, program in programs for topic in topics_apart(program, host.inner_topics))
        """Source topics whose records lead to none for another task."""
        self._owner = {store: number for number, program in programs for store in program.stores}
        self._global_stores = self._settings.global_stores(host.subtopologies)
        self._inner = InnerTopics(host.inner_topics)
        self._budget = MemoryBudget(config.statestore_cache_max_bytes, config.entries_memory_bytes)
        self._tasks: dict[TaskId, TaskRun] = {}

    def restore(self, restored: RestoredRows) -> None:
        """Restore a store of a task from rows of its changelog."""
        self._task(self._owner[restored.store], restored.task).restore(restored)

    def process(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Process records of topics in their order, each with all that it leads to. Records that lead to none for
        another task wait until the next record comes to their own task, or the chunk ends: then they go as batches."""
        partitions = [chain.from_iterable(map(_records, batches)) for batches in chunk.partitions]
        repartition = self._settings.topics.repartition
        for index in chunk.order:
            partition, key, value, timestamp, place, own = next(partitions[index])
            topic, number = partition
            task = self._task(self._reader[topic], number)
            (count,) = task.numbered(topic, 1)
            # As on the host of a single task: the sequence numbers of a shuffle are no offsets.
            offset = count if topic in repartition else place
            if topic in self._apart:
                task.let_wait(partition, key, value, timestamp, offset, own)
                continue
            yield from task.take_waiting()
            if own:
                yield from task.take(RecordBatch(partition, [key], [value], [timestamp], [offset], [own]))
            else:
                yield from task.take_one(partition, key, value, timestamp, offset)
            yield from self._read_inner_topics()
        for task in list(self._tasks.values()):
            yield from task.take_waiting()

    def commit_where_full(self) -> Iterator[pa.RecordBatch]:
        """Commit tasks that are full. A commit releases what caches hold back, and other tasks read it."""
        for task in list(self._tasks.values()):
            yield from task.commit_if_full()
            yield from self._read_inner_topics()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Commit until no task has records for another, then hand over."""
        went_on = True
        while went_on:
            for task in list(self._tasks.values()):
                yield from task.commit()
            went_on = self._inner.unread
            yield from self._read_inner_topics()
        for task in self._tasks.values():
            yield from task.hand_over()

    def close(self) -> None:
        """Close all tasks, and remove their stores from the disk."""
        with ExitStack() as opened:
            for task in self._tasks.values():
                opened.callback(task.close)

    def _read_inner_topics(self) -> Iterator[pa.RecordBatch]:
        while (found := self._inner.take()) is not None:
            partition, (keys, values, timestamps, headers) = found
            task = self._task(self._reader[partition.topic], partition.partition)
            yield from task.take_waiting()
            offsets = task.numbered(partition.topic, len(keys))
            if any(headers):
                yield from task.take(RecordBatch(partition, keys, values, timestamps, offsets, headers))
            elif len(keys) == 1:
                yield from task.take_one(partition, keys[0], values[0], timestamps[0], offsets[0])
            else:
                yield from task.take(RecordBatch(partition, keys, values, timestamps, offsets))

    def _task(self, subtopology: int, number: int) -> TaskRun:
        task_id = TaskId(subtopology, number)
        task = self._tasks.get(task_id)
        if task is None:
            program = self._programs[subtopology]
            task = TaskRun(self._settings, program, task_id, self._global_stores, self._inner, self._budget)
            self._tasks[task_id] = task
        return task


_Record = tuple[TopicPartition, bytes | None, bytes | None, int, int, Headers | None]
"""Partition, key, value, timestamp, offset and headers."""


def _records(batch: RecordBatch) -> Iterator[_Record]:
    headers = batch.headers or [None] * len(batch)
    return zip(
        repeat(batch.partition), batch.keys, batch.values, batch.timestamps, batch.offsets, headers, strict=False
    )


def topics_apart(program: TaskProgram, inner_topics: frozenset[str]) -> frozenset[str]:
    """Returns the topics that come from outside and whose records never lead to a record of ``inner_topics``.

    Not even by the stream time that they advance, at which punctuators of a user's processor are called, and rows of a
    table expire.
    """
    nodes = {node.name: node for node in program.nodes}
    entering: list[Node] = [node for node in program.nodes if isinstance(node, SinkNode) and node.topic in inner_topics]
    found: dict[str, Node] = {}
    while entering:
        node = entering.pop()
        if node.name not in found:
            found[node.name] = node
            entering += _parents(node, nodes)
    for node in found.values():
        if isinstance(node, ProcessorNode) and (
            node.operator.runs_user_objects or any(program.stores[name].changes_by_itself for name in node.stores)
        ):
            return frozenset()
    apart = frozenset(topic for topic, source in program.sources.items() if source.node not in found)
    return apart - inner_topics


def _parents(node: Node, nodes: Mapping[str, Node]) -> list[Node]:
    return [] if isinstance(node, SourceNode) else [nodes[parent] for parent in node.parents]
