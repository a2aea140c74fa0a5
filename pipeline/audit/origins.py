"""The input offsets that lead to a row that differs: those of the records with its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from penstock.common.ids import TaskId, TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.pipeline.reading.contracts import HistorySource
from penstock.state.builders import AnyStoreBuilder
from penstock.state.windowed.expiring_store import ExpiringStoreBuilder

_LAST = 5


@dataclass(frozen=True)
class KeyOffsets:
    """The records of one key in one partition: their number, and the last offsets."""

    partition: TopicPartition
    records: int
    last: tuple[int, ...]


def record_key(builder: AnyStoreBuilder, row_key: bytes) -> bytes:
    """Returns the key that records of a row have, without the row's window."""
    key = builder.key_of_compared(row_key)
    return key[: -builder.schema.suffix_bytes] if isinstance(builder, ExpiringStoreBuilder) else key


def offsets_of_keys(
    history: HistorySource, ranges: Ranges, keys: Mapping[TaskId, Sequence[bytes]], sources: Mapping[TaskId, Ranges]
) -> dict[tuple[TaskId, bytes], list[KeyOffsets]]:
    """Returns the offsets of each of ``keys`` in the source partitions of its task, read once from their beginnings.

    ``sources`` has the ranges that each task reads from outside. A task behind a repartition topic may have none.
    """
    wanted: dict[TopicPartition, dict[bytes, TaskId]] = {}
    for task, some in keys.items():
        for at, offsets in sources.get(task, {}).items():
            if offsets:
                wanted.setdefault(at, {}).update(dict.fromkeys(some, task))
    found: dict[tuple[TaskId, bytes], list[KeyOffsets]] = {}
    read: dict[TopicPartition, OffsetRange] = {at: ranges[at] for at in wanted}
    if not read:
        return found
    with closing(history.open(read)) as opened:
        for at, of_key in sorted(wanted.items()):
            offsets_by_key: dict[bytes, list[int]] = {}
            for batch in opened.batches(at):
                for key, offset in zip(batch.keys, batch.offsets, strict=True):
                    if key is not None and key in of_key:
                        offsets_by_key.setdefault(key, []).append(offset)
            for key, of_records in offsets_by_key.items():
                entry = KeyOffsets(at, len(of_records), tuple(of_records[-_LAST:]))
                found.setdefault((of_key[key], key), []).append(entry)
    return found
