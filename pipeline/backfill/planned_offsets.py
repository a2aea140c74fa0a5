"""The offsets of a plan as a value that can be written down, and read by the process that continues the backfill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import Struct

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.pipeline.backfill.plan import BackfillPlan, Stage
from penstock.pipeline.task_hosts.collector import TopicCounts

_Range = tuple[str, int, int, int]
"""Topic, partition, begin and end."""


class StageOffsets(Struct, frozen=True):
    """The ranges of one stage: see :class:`~penstock.pipeline.backfill.plan.Stage`."""

    records: list[_Range]
    changelogs: dict[str, list[_Range]]
    unfinished: dict[str, list[_Range]]


class PlannedOffsets(Struct, frozen=True):
    """All offsets of a plan: see :class:`~penstock.pipeline.backfill.plan.BackfillPlan`."""

    stages: list[StageOffsets]
    committed: list[tuple[str, int, int, str]]
    until: list[tuple[str, int, int]]
    fingerprint: str
    global_records: list[_Range]

    @classmethod
    def of(cls, plan: BackfillPlan) -> PlannedOffsets:
        """Returns the offsets of ``plan``."""
        return cls(
            [
                StageOffsets(_listed(stage.records), _each(stage.changelogs), _each(stage.unfinished))
                for stage in plan.stages
            ],
            [(*at, found.offset, found.metadata) for at, found in sorted(plan.committed.items())],
            [(*at, offset) for at, offset in sorted(plan.until.items())],
            plan.fingerprint,
            _listed(plan.global_records),
        )

    def plan(self, shapes: Sequence[Stage], topics: TopicCounts) -> BackfillPlan:
        """Returns the plan with these offsets, and with stages of these ``shapes``."""
        stages = tuple(
            replace(
                shape,
                records=_ranges(own.records),
                changelogs={store: _ranges(ranges) for store, ranges in own.changelogs.items()},
                unfinished={store: _ranges(ranges) for store, ranges in own.unfinished.items()},
            )
            for shape, own in zip(shapes, self.stages, strict=True)
        )
        return BackfillPlan(
            stages,
            topics,
            {TopicPartition(topic, number): CommittedOffset(at, text) for topic, number, at, text in self.committed},
            {TopicPartition(topic, number): offset for topic, number, offset in self.until},
            self.fingerprint,
            _ranges(self.global_records),
        )


def _listed(ranges: Ranges) -> list[_Range]:
    return [(*at, offsets.begin, offsets.end) for at, offsets in sorted(ranges.items())]


def _each(stores: Mapping[str, Ranges]) -> dict[str, list[_Range]]:
    return {store: _listed(ranges) for store, ranges in stores.items()}


def _ranges(listed: Sequence[_Range]) -> dict[TopicPartition, OffsetRange]:
    return {TopicPartition(topic, number): OffsetRange(begin, end) for topic, number, begin, end in listed}
