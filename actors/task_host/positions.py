"""Finds the positions at which a task begins to read its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.log import logger
from penstock.kafka.contracts import Admin, RecordConsumer


@dataclass(frozen=True)
class Start:
    """The first offset to read, the partition's end at that time, and the committed offset if it is still valid.

    ``lost``: the committed offset, if the log no longer has it, so that reading begins at ``offset`` instead. The times
    in its metadata are still valid.
    """

    offset: int
    end: int
    committed: CommittedOffset | None = None
    lost: CommittedOffset | None = None

    @property
    def resume_from(self) -> CommittedOffset | None:
        """The first offset, with the known times of the records before it; None if nothing was committed."""
        return self.committed if self.lost is None else CommittedOffset(self.offset, self.lost.metadata)


def start_positions(
    consumer: RecordConsumer, admin: Admin, resets: Mapping[TopicPartition, str]
) -> dict[TopicPartition, Start]:
    """Returns the committed offsets. If there is none, or its records are gone, the reset policy decides.

    ``resets`` gives ``earliest`` or ``latest`` for each partition.
    """
    committed = consumer.committed(resets)
    beginnings = consumer.fetch_beginning_offsets(resets)
    ends = consumer.fetch_end_offsets(resets)
    # At least once, records of open transactions of other producers are read, and committed, too. If the application
    # was changed to exactly once, such records are after the end.
    beyond = [tp for tp, found in committed.items() if found.offset > ends[tp]]
    logged = admin.high_watermarks(beyond) if beyond else {}
    starts = {}
    for tp, policy in resets.items():
        found, begin, end = committed.get(tp), beginnings[tp], ends[tp]
        if found is not None and begin <= found.offset <= logged.get(tp, end):
            starts[tp] = Start(found.offset, max(found.offset, end), found)
            continue
        lost = None
        to = end if policy == "latest" else begin
        if found is not None:
            to = position_after_loss(found.offset, begin, end, logged.get(tp, end), policy)
            log_loss("committed offset", tp, found.offset, begin, end, policy, to)
            lost = found
        starts[tp] = Start(to, max(to, end), lost=lost)
    return starts


def position_after_loss(was: int, beginning: int, end: int, log_end: int, policy: str) -> int:
    """Returns where to continue after the position ``was``, which the log does not have.

    If it is before ``beginning``, retention has deleted records before they were read: the reset policy decides. If it
    is after ``log_end``, the log has become shorter, and all remaining records were read: continue at its end, as
    Kafka's consumer continues where the logs diverge (KIP-320). ``end``: the end of the records that may be read,
    before open transactions.
    """
    if was > log_end:
        return log_end
    if was >= beginning:
        return was  # the log has grown again meanwhile
    return end if policy == "latest" else beginning


def log_loss(what: str, partition: TopicPartition, was: int, beginning: int, end: int, policy: str, to: int) -> None:
    """Logs that a position, or a committed offset, is not in the log any more. ``offsets_lost``: those that were never
    read; ``offsets_gone``: those that were read."""
    if was > to:
        why = (
            f"{what} beyond the end of the partition, continuing at its end: a leader without the last records was "
            "elected (see unclean.leader.election.enable), or the topic was created again (then reset the application)"
        )
    else:
        why = (
            f"{what} out of range, applying the reset policy: records were deleted before they were read; raise the "
            "topic's retention, or process faster"
        )
    logger(__name__).error(
        why, topic=partition.topic, partition=partition.partition, position=was, beginning=beginning, end=end,
        policy=policy, new_position=to, offsets_lost=max(0, to - was), offsets_gone=max(0, was - to),
    )  # fmt: skip
