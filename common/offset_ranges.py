"""The records that are read of each partition, from one offset to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.common.ids import TopicPartition


@dataclass(frozen=True)
class OffsetRange:
    """Records from offset ``begin`` up to, but not including, ``end``."""

    begin: int
    end: int

    def __len__(self) -> int:
        """Number of offsets, of which some may be without a record; 0 if ``end`` is not after ``begin``."""
        return max(0, self.end - self.begin)

    def __str__(self) -> str:
        """Returns the first and the last offset, as messages show them: ``4 to 9``, or ``none``."""
        return f"{self.begin:,} to {self.end - 1:,}" if self else "none"

    def common(self, other: OffsetRange) -> OffsetRange:
        """Returns the offsets that are in both."""
        return OffsetRange(max(self.begin, other.begin), min(self.end, other.end))


Ranges = Mapping[TopicPartition, OffsetRange]


def size_of(ranges: Ranges) -> int:
    """Returns the number of offsets in all ranges together."""
    return sum(map(len, ranges.values()))
