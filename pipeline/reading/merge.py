"""Streams of records of partitions."""

from __future__ import annotations

from dataclasses import replace

from penstock.common.records import RecordBatch


def part_of(batch: RecordBatch, begin: int, end: int) -> RecordBatch:
    """Returns the records ``begin`` to ``end`` (exclusive) of a batch."""
    return replace(
        batch,
        keys=batch.keys[begin:end],
        values=batch.values[begin:end],
        timestamps=batch.timestamps[begin:end],
        offsets=batch.offsets[begin:end],
        headers=None if batch.headers is None else batch.headers[begin:end],
        size=0,
    )
