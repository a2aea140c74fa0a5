"""Lays what Spark computed beside the live stores: counts, and the first rows that differ. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import msgpack

from penstock.common.ids import TaskId
from penstock.pipeline.audit.contracts import LiveStores, StoreOfTask
from penstock.pipeline.audit.task_audit import MOST_RANGES, SUMMARY, StoreSummary
from penstock.pipeline.task_hosts.contracts import EndRow
from penstock.state.key_sample import KeySample
from penstock.state.range_digests import RangeDigest, Row, RowDifference, differing_rows


@dataclass(frozen=True)
class TaskDifference:
    """A row of one task that is not as Spark computed it."""

    task: TaskId
    row: RowDifference


@dataclass
class StoreComparison:
    """One store, all tasks together: numbers of rows, and the first differences by task and key.

    ``uncompared_ranges``: number of ranges that differ, too, and were not compared row by row; then ``different`` is
    the least number of rows that differ.
    """

    store: str
    expected: int = 0
    found: int = 0
    ranges: int = 0
    different: int = 0
    uncompared_ranges: int = 0
    first: list[TaskDifference] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """True if a row differs."""
        return bool(self.different or self.uncompared_ranges)


@dataclass
class ComputedStore:
    """One store of one task as Spark computed it: its summary, and the rows of the first ranges that differ."""

    summary: StoreSummary
    rows: dict[int, list[Row]] = field(default_factory=dict)


def computed_stores(rows: Iterable[tuple[TaskId, EndRow]]) -> dict[StoreOfTask, ComputedStore]:
    """Returns what the tasks have yielded at their ends, by task and store."""
    found: dict[StoreOfTask, ComputedStore] = {}
    later: list[tuple[TaskId, EndRow]] = []
    for task, row in rows:
        if row.number == SUMMARY:
            found[task, row.store] = ComputedStore(msgpack.decode(row.row, type=StoreSummary))
        else:
            later.append((task, row))
    for task, row in later:
        found[task, row.store].rows.setdefault(row.number, []).append((row.key, row.row))
    return found


def compared(
    live: LiveStores,
    digests: Mapping[StoreOfTask, Sequence[RangeDigest]],
    computed: Mapping[StoreOfTask, ComputedStore],
    shown: int,
    sample: KeySample | None = None,
) -> list[StoreComparison]:
    """Returns the comparison of each store, by name. A task that Spark gave no record has empty stores. ``shown``:
    number of differences that are kept of each store."""
    stores: dict[str, StoreComparison] = {}
    for (task, store), theirs in sorted(digests.items()):
        ours = computed.get((task, store)) or _nothing(theirs)
        it = stores.setdefault(store, StoreComparison(store))
        it.expected += ours.summary.rows
        it.found += sum(each.rows for each in theirs)
        it.ranges += len(theirs)
        it.uncompared_ranges += len(ours.summary.differing[MOST_RANGES:])
        ends = [*(each.begin for each in theirs[1:]), None]
        for number in ours.summary.differing[:MOST_RANGES]:
            expected = sorted(ours.rows.get(number, ()))
            found = live.rows(task, store, theirs[number].begin, ends[number], sample)
            for row in differing_rows(expected, found):
                it.different += 1
                if len(it.first) < shown:
                    it.first.append(TaskDifference(task, row))
    return [stores[name] for name in sorted(stores)]


def _nothing(theirs: Sequence[RangeDigest]) -> ComputedStore:
    return ComputedStore(StoreSummary(0, [number for number, each in enumerate(theirs) if each.rows]))
