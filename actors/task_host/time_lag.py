"""Measures, in seconds, how far a task is behind the ends of its source partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch

_REMEMBERED = 1000
"""Batches whose timestamps are remembered: more than are queued between two requests for the status."""


class TimeLag:
    """The time since the oldest record that is not processed was written. For one partition that is the smaller of

    - the age of the next record, by Kafka's timestamps and not by the extractor's, exact to a batch;
    - the time since the task was last seen at the end of the partition: all later records were written after that,
      whatever their timestamps.

    Costs one call per batch.
    """

    def __init__(self) -> None:
        self._batches: dict[TopicPartition, deque[tuple[int, int]]] = {}
        """First offset and first timestamp of each batch that may hold the next record."""
        self._at_end_s: dict[TopicPartition, float] = {}

    def fetched(self, batch: RecordBatch) -> None:
        """Note the timestamp of ``batch``, which was fetched."""
        batches = self._batches.get(batch.partition)
        if batches is None:
            batches = self._batches[batch.partition] = deque(maxlen=_REMEMBERED)
        offset = batch.offsets[0]
        if batches and offset <= batches[-1][0]:
            batches.clear()  # the task has gone back to its last commit
        batches.append((offset, batch.timestamps[0]))

    def look(
        self, lags: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int], now_s: float, wall_ms: int
    ) -> float | None:
        """Returns the seconds of the partition that is furthest behind; 0 without lag. None if nothing is known of one
        that has lag. ``lags`` are in records, ``positions`` are the next offsets to process."""
        behind = [self._of(tp, lag, positions.get(tp, 0), now_s, wall_ms) for tp, lag in lags.items()]
        known = [seconds for seconds in behind if seconds is not None]
        return max(known, default=0.0) if len(known) == len(behind) else None

    def _of(self, tp: TopicPartition, lag: int, position: int, now_s: float, wall_ms: int) -> float | None:
        if lag == 0:
            self._at_end_s[tp] = now_s
            return 0.0
        bounds = [now_s - at_s for at_s in [self._at_end_s.get(tp)] if at_s is not None]
        if batches := self._batches.get(tp):
            while len(batches) > 1 and batches[1][0] <= position:
                batches.popleft()
            bounds.append((wall_ms - batches[0][1]) / 1000)
        return max(0.0, min(bounds)) if bounds else None
