"""The end of a task on Spark, in an audit: its stores are compared with the digests of the live ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct, msgpack
from typing_extensions import override

from penstock.common.ids import TaskId
from penstock.pipeline.audit.contracts import StoreOfTask
from penstock.pipeline.task_hosts.contracts import EndRow, TaskEnd, TaskEndStores
from penstock.state.key_sample import KeySample
from penstock.state.range_digests import RangeDigest, digests_in, rows_of_range

SUMMARY = -1
"""The number of the row that has the summary of a store; other rows have the number of their range."""
MOST_RANGES = 100
"""Number of ranges of a store of a task that are compared row by row; of the others only the number is known."""


class StoreSummary(Struct, frozen=True):
    """One store of one task as Spark computed it: number of its rows, and the numbers of the ranges that differ."""

    rows: int
    differing: list[int]


@dataclass(frozen=True)
class TaskAudit(TaskEnd):
    """Yields for each store a summary, and the rows of the first ranges that differ. ``live``: the digests of the live
    stores."""

    live: Mapping[StoreOfTask, Sequence[RangeDigest]]
    sample: KeySample | None = None

    @override
    def rows(self, task: TaskId, stores: TaskEndStores) -> Iterator[EndRow]:
        for store, (builder, committed) in stores.items():
            live = self.live.get((task, store))
            if live is None:
                continue
            begins = [each.begin for each in live]
            rows = builder.compared_rows(committed)
            own = list(digests_in(rows if self.sample is None else self.sample.of_rows(rows), begins))
            differing = [number for number, (mine, theirs) in enumerate(zip(own, live, strict=True)) if mine != theirs]
            summary = StoreSummary(sum(each.rows for each in own), differing)
            yield EndRow(store, SUMMARY, b"", msgpack.encode(summary))
            ends = [*begins[1:], None]
            for number in differing[:MOST_RANGES]:
                rows = rows_of_range(builder.compared_rows(committed, begins[number]), ends[number])
                for key, row in rows if self.sample is None else self.sample.of_rows(rows):
                    yield EndRow(store, number, key, row)
