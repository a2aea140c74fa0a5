"""Finds the positions at which a task begins to read its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.common.errors import StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.log import logger
from penstock.common.offset_resets import ByDuration, OffsetReset
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
    consumer: RecordConsumer, admin: Admin, resets: Mapping[TopicPartition, OffsetReset], now_ms: int
) -> dict[TopicPartition, Start]:
    """Returns the committed offsets. If there is none, or its records are gone, the reset policy decides.

    ``resets``: the policy of each partition. ``now_ms``: the time from which durations count.
    """
    committed = consumer.committed(resets)
    beginnings = consumer.fetch_beginning_offsets(resets)
    ends = consumer.fetch_end_offsets(resets)
    # At least once, records of open transactions of other producers are read, and committed, too. If the application
    # was changed to exactly once, such records are after the end.
    beyond = [tp for tp, found in committed.items() if found.offset > ends[tp]]
    logged = admin.high_watermarks(beyond) if beyond else {}
    starts, without = {}, {}
    for tp, policy in resets.items():
        found, end = committed.get(tp), ends[tp]
        if found is not None and beginnings[tp] <= found.offset <= logged.get(tp, end):
            starts[tp] = Start(found.offset, max(found.offset, end), found)
        else:
            without[tp] = policy
    reset_to = reset_positions(consumer, without, beginnings, ends, now_ms)
    for tp, policy in without.items():
        lost, begin, end = committed.get(tp), beginnings[tp], ends[tp]
        if lost is not None:
            to = position_after_loss(tp, lost.offset, begin, logged.get(tp, end), reset_to.get(tp))
            log_loss("committed offset", tp, lost.offset, begin, end, policy, to)
        elif tp in reset_to:
            to = reset_to[tp]
        else:
            raise StreamsError(
                f"no offset is committed for partition {tp.partition} of topic {tp.topic!r}, and its offset reset is "
                "none: commit one (penstock reset), or give its Consumed another offset reset"
            )
        starts[tp] = Start(to, max(to, end), lost=lost)
    return starts


def reset_positions(
    consumer: RecordConsumer,
    resets: Mapping[TopicPartition, OffsetReset],
    beginnings: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    now_ms: int,
) -> dict[TopicPartition, int]:
    """Returns the position of each partition by its reset policy alone; those whose policy is ``none`` are left out.
    Asks the broker if a policy needs that."""
    times = {tp: max(0, now_ms - policy.duration_ms) for tp, policy in resets.items() if isinstance(policy, ByDuration)}
    of_times = consumer.fetch_offsets_at(times) if times else {}
    return {
        tp: of_times.get(tp, ends[tp]) if tp in times else ends[tp] if policy == "latest" else beginnings[tp]
        for tp, policy in resets.items()
        if policy != "none"
    }


def position_after_loss(partition: TopicPartition, was: int, beginning: int, log_end: int, reset_to: int | None) -> int:
    """Returns where to continue after the position ``was``, which the log does not have.

    If it is before ``beginning``, retention has deleted records before they were read: continue at ``reset_to``, where
    the reset policy begins; None raises StreamsError. If it is after ``log_end``, the log has become shorter, and all
    remaining records were read: continue at its end, as Kafka's consumer continues where the logs diverge (KIP-320).
    """
    if was > log_end:
        return log_end
    if was >= beginning:
        return was  # the log has grown again meanwhile
    if reset_to is None:
        raise StreamsError(
            f"partition {partition.partition} of topic {partition.topic!r} begins with offset {beginning}: its records "
            f"from offset {was} on were deleted before they were read, and its offset reset is none. Reset the "
            "application (penstock reset), or give its Consumed another offset reset"
        )
    return reset_to


def log_loss(
    what: str, partition: TopicPartition, was: int, beginning: int, end: int, policy: OffsetReset | None, to: int
) -> None:
    """Logs that a position, or a committed offset, is not in the log any more. ``offsets_lost``: those that were never
    read; ``offsets_gone``: those that were read. ``policy``: None if it does not matter."""
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
        policy=str(policy or "none"), new_position=to, offsets_lost=max(0, to - was), offsets_gone=max(0, was - to),
    )  # fmt: skip
