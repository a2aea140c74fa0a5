"""Finds partitions that give nothing although the broker has more: their positions do not move between two questions.

librdkafka 2.16 can drop every broker that it knows and never connect again. It does so if a broker that starts answers
for a moment that there are no brokers, after a return to ``bootstrap.servers`` was begun and cancelled (its issues 5301
and 5605; a single partition may be forgotten, too, 4492). No error is reported, the consumer gives nothing, and the
ends that it remembers do not change. So another client must ask the broker (``broker_ends.py``), and only a new
consumer helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.common.ids import TopicPartition
from penstock.kafka.contracts import END

PATIENCE_S = 10.0
"""librdkafka repeats a fetch that failed after 0.5 s, and connects again after at most 10 s."""
_WHILE_OTHERS_GIVE = 6
"""Factor of the patience if the client gives records of other partitions. An answer to a fetch has room for 12 full
partitions, and each request begins one partition further: the last of many must wait until the others were served."""


@dataclass(frozen=True)
class Stall:
    """A partition that has given nothing for ``silent_s`` seconds, although it has records up to ``end``."""

    partition: TopicPartition
    position: int
    end: int
    silent_s: float


class FetchWatch:
    """Compares the positions of a consumer at moments when its queue was empty. Knows no client and no clock.

    ``wait_s``: the time for which the broker may keep a fetch waiting for more records (``fetch.wait.max.ms``).
    """

    def __init__(self, wait_s: float = 0.0) -> None:
        self._wait_s = wait_s
        self._seen: dict[TopicPartition, int] = {}
        self._behind_since: dict[TopicPartition, float] = {}
        self._restarts: dict[TopicPartition, int] = {}
        self._gives = False  # since the last answer
        self._gave_s = -1.0

    def silent(self, positions: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Returns the partitions whose positions are the same as at the last call; the others have given records.

        Leaves out those at END, whose position is not known: a new fetch from END would lose records that were written
        meanwhile.
        """
        silent = [tp for tp, position in positions.items() if self._seen.get(tp) == position != END]
        self._gives |= any(self._seen.get(tp, position) != position for tp, position in positions.items())
        self._seen = dict(positions)
        for tp in self._behind_since.keys() - set(silent):
            del self._behind_since[tp]
        return silent

    def stalled(
        self, now_s: float, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> list[Stall]:
        """Returns the partitions whose position has been below their end for longer than a fetch can take. ``ends``:
        the broker's answer for the silent ones.

        If the broker reported no end, nothing is known, and the time begins again. After each restart the time is twice
        as long, until the partition is read to its end: a fetch over a slow connection, or through aborted
        transactions, must be able to finish, and a single record does not show that the restart has helped.
        """
        behind = [tp for tp, end in ends.items() if tp in positions and self._seen.get(tp) == positions[tp] < end]
        self._behind_since = {tp: self._behind_since.get(tp, now_s) for tp in behind}
        if self._gives:
            self._gives, self._gave_s = False, now_s
        return [
            Stall(tp, positions[tp], ends[tp], now_s - since)
            for tp, since in self._behind_since.items()
            if now_s - since >= self._patience_s(tp, since)
        ]

    def _patience_s(self, partition: TopicPartition, since: float) -> float:
        longer = _WHILE_OTHERS_GIVE if self._gave_s > since else 1
        return (PATIENCE_S + self._wait_s) * longer * 2.0 ** self._restarts.get(partition, 0)

    def at_end(self, partition: TopicPartition) -> None:
        """Note that the partition was read to its end, even if there are new records since."""
        self._restarts.pop(partition, None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget ``partitions``, which are paused or no longer assigned, and so give nothing."""
        for tp in partitions:
            self._seen.pop(tp, None)
            self._behind_since.pop(tp, None)
            self._restarts.pop(tp, None)

    def restarted(self) -> None:
        """Note that the fetch of all partitions was restarted, also of those that were about to give records."""
        for tp in self._behind_since:
            self._restarts[tp] = self._restarts.get(tp, 0) + 1
        self._behind_since.clear()
