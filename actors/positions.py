"""Where a task begins to read its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.log import logger
from penstock.kafka.contracts import Admin, RecordConsumer


@dataclass(frozen=True)
class Start:
    """The first offset to read, the partition's end when that was decided, what was committed if it still holds.

    ``lost``: what was committed, where the records behind it are deleted, so that reading begins at ``offset`` instead.
    What its metadata tells of time still holds.
    """

    offset: int
    end: int
    committed: CommittedOffset | None = None
    lost: CommittedOffset | None = None

    @property
    def resume_from(self) -> CommittedOffset | None:
        """The first offset with what was known of time before it; None where nothing was."""
        return self.committed if self.lost is None else CommittedOffset(self.offset, self.lost.metadata)


def start_positions(
    consumer: RecordConsumer, admin: Admin, resets: Mapping[TopicPartition, str]
) -> dict[TopicPartition, Start]:
    """The committed offsets; where there are none, or the records there are gone, what the reset policy says.

    ``resets`` gives ``earliest`` or ``latest`` for each partition.
    """
    committed = consumer.committed(resets)
    beginnings = consumer.fetch_beginning_offsets(resets)
    ends = consumer.fetch_end_offsets(resets)
    # At least once, what open transactions of others have written is read, and committed, too. Exactly once, which the
    # application may have been changed to, their records are behind the end.
    beyond = [tp for tp, found in committed.items() if found.offset > ends[tp]]
    logged = admin.high_watermarks(beyond) if beyond else {}
    starts = {}
    for tp, policy in resets.items():
        found, begin, end = committed.get(tp), beginnings[tp], ends[tp]
        if found is not None and begin <= found.offset <= logged.get(tp, end):
            starts[tp] = Start(found.offset, max(found.offset, end), found)
            continue
        if found is not None:
            logger(__name__).warning(
                "committed offset out of range, applying the reset policy",
                partition=str(tp), committed=found.offset, beginning=begin, end=end, policy=policy,
            )  # fmt: skip
        deleted = found if found is not None and found.offset < begin else None
        starts[tp] = Start(end if policy == "latest" else begin, end, lost=deleted)
    return starts
