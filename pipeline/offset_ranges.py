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

    def __bool__(self) -> bool:
        return self.end > self.begin


Ranges = Mapping[TopicPartition, OffsetRange]
