"""Cycles that run in passes, without Spark: the real merge and hosts, over rows that tests write down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from typing_extensions import override

from penstock.common.ids import TopicPartition
from penstock.pipeline.backfill.order import StageSubtopologies
from penstock.pipeline.backfill.unrolling import unrolled
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.reading.due_records import DueBatch
from penstock.pipeline.reading.merge import TimedBatches
from penstock.pipeline.reading.merge_cycle import merged_cycle, placed
from penstock.pipeline.rows import REPARTITION
from penstock.pipeline.task_hosts.cycle_host import CycleHost
from penstock.pipeline.task_hosts.cycle_pass import CyclePass
from penstock.pipeline.task_hosts.pass_host import PassHost
from penstock.topology.physical.topology import internal_topic
from tests.pipeline.rows import Row, RowsInput, RowsOfTasks, output

Results = dict[str, list[dict[str, Any]]]


class PassInput(RowsInput):
    """Rows for a pass. Those that earlier passes wrote are ``written``, in the order of each writer."""

    cycle: CyclePass
    written: Sequence[dict[str, Any]]

    @override
    def open(self, tasks: Sequence[int]) -> RowsOfTasks:
        opened = _RowsOfPass(*self.of(tasks))
        opened.cycle = self.cycle
        opened.written = [row for row in self.written if row["partition"] in tasks]
        return opened


class _RowsOfPass(RowsOfTasks):
    cycle: CyclePass
    written: Sequence[dict[str, Any]]

    @override
    def chunks(self) -> Iterator[Chunk]:
        outside = [
            placed(TimedBatches(partition.batches, partition.times_of), self.cycle.place(at), None)
            for at, partition in self.partitions()
        ]
        topics = self.cycle.inner
        ordered = sorted(self.written, key=lambda row: (topics.index(row["topic"]), row["partition"], row["task"]))
        inner = [
            self._placed(TopicPartition(*to), list(rows))
            for (*to, _), rows in groupby(ordered, lambda row: (row["topic"], row["partition"], row["task"]))
        ]
        for chunk in merged_cycle([*outside, *inner], self.size):
            yield chunk
            self.taken()

    def _placed(self, at: TopicPartition, rows: list[dict[str, Any]]) -> Iterator[DueBatch]:
        given = [
            (at.partition, 1, at.topic, 0, *map(row.get, ("sequence", "key", "value", "timestamp", "headers")))
            for row in rows
        ]
        due = np.array([row["due"] for row in rows], np.int64)
        begin = 0
        for batch in self.batches(given):
            end = begin + len(batch)
            yield DueBatch(batch, due[begin:end], np.asarray(batch.offsets, np.int64))
            begin = end


def pass_hosts(stage: StageSubtopologies, like: CycleHost) -> list[PassHost]:
    """Returns the hosts of the passes over a cycle, with the settings of ``like``."""
    passes = unrolled(stage)
    assert passes is not None
    application = like.settings.config.application_id
    repartition = like.settings.topics.repartition
    read = {
        internal_topic(application, topic) if source.internal else topic
        for sub in stage.subtopologies
        for source in sub.sources
        for topic in source.topics
    }
    outside = tuple(sorted(read - like.inner_topics))
    assert like.inner_topics <= repartition
    return [
        PassHost(
            each.subtopology,
            like.settings,
            CyclePass(
                number,
                len(passes),
                outside,
                tuple(internal_topic(application, topic) for each in passes for topic in sorted(each.writes)),
                frozenset(internal_topic(application, topic) for topic in each.writes),
                each.partial,
            ),
        )
        for number, each in enumerate(passes, 1)
    ]


def run_pass(host: PassHost, rows: Sequence[Row], written: Sequence[dict[str, Any]], size: int) -> Results:
    """Returns what a pass yields. ``written``: what earlier passes have written."""
    names = {store.name for store in host.subtopology.stores}
    read = {
        internal_topic(host.settings.config.application_id, topic) if source.internal else topic
        for source in host.subtopology.sources
        for topic in source.topics
    }
    given = PassInput([row for row in rows if row[2] in read | names], size)
    given.cycle = host.cycle
    given.written = [row for row in written if row["topic"] in host.cycle.written_before(read)]
    tasks = {row[0] for row in rows} | {row["partition"] for row in given.written}
    return output(host.run(sorted(tasks), given))


def run_passes(stage: StageSubtopologies, like: CycleHost, rows: Sequence[Row], size: int) -> Results:
    """Returns what the passes over a cycle yield together, without what they write for each other."""
    results: Results = defaultdict(list)
    written: list[dict[str, Any]] = []
    for host in pass_hosts(stage, like):
        found = run_pass(host, rows, written, size)
        written += [row for row in found[REPARTITION] if row["topic"] in host.cycle.writes]
        found[REPARTITION] = [row for row in found[REPARTITION] if row["topic"] not in host.cycle.writes]
        assert not host.cycle.partial or not any(found.values())
        for kind, own in found.items():
            results[kind] += own
    return results
