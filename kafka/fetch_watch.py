"""Finds partitions that give nothing although the broker has more: their positions do not move between two questions.

librdkafka 2.16 can let go of every broker that it knows and connect to none again: when a broker that starts answers
for a moment that there are no brokers, while a return to ``bootstrap.servers`` was begun and called off before (its
issues 5301 and 5605; a single partition may be forgotten, too, 4492). No error is reported, the consumer gives nothing,
and the ends that it remembers do not move. So another client must ask the broker (``broker_ends.py``), and only a new
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
"""Factor of the patience if the client gives records of other partitions: an answer to a fetch has room for 12 full
partitions, each request begins one partition further, and the last of many must wait until the others were served."""


@dataclass(frozen=True)
class Stall:
    """A partition that has given nothing for ``silent_s`` seconds, though its records reach up to ``end``."""

    partition: TopicPartition
    position: int
    end: int
    silent_s: float


class FetchWatch:
    """Compares looks at a consumer, each taken when nothing was left in its queue. Knows no client and no clock.

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
        """Returns the partitions whose positions are the same as at the last call; the others have given something.

        Leaves out those at END, whose position is not known: at END again, what was written meanwhile would be lost.
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
        """Returns those behind ``ends``, the broker's answer for the silent ones, for longer than a fetch can take.

        If the broker reported no end, nothing is known, and the time begins again. After each restart it is twice as
        long, until the end is reached: a fetch over a slow connection, or through aborted transactions, must come to
        its end, and a record now and then does not show that it was the restart that helped.
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
        """The partition has been read to its end, whatever has come since."""
        self._restarts.pop(partition, None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget ``partitions``: paused, or assigned no longer, they give nothing whatever the broker has."""
        for tp in partitions:
            self._seen.pop(tp, None)
            self._behind_since.pop(tp, None)
            self._restarts.pop(tp, None)

    def restarted(self) -> None:
        """All are fetched again, also those that might have given something next."""
        for tp in self._behind_since:
            self._restarts[tp] = self._restarts.get(tp, 0) + 1
        self._behind_since.clear()
