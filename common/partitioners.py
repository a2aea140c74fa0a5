"""Partitioners by which other programs may have written a topic."""

from __future__ import annotations

from enum import StrEnum
from zlib import crc32

from penstock.common.murmur2 import partition_for


class Partitioner(StrEnum):
    """What gives a record's key to a partition."""

    MURMUR2 = "murmur2"
    """Kafka's default, and penstock's own."""
    CRC32 = "crc32"
    """librdkafka's default (``consistent_random``): of every confluent-kafka program that sets no other."""
    UNKNOWN = "unknown"
    """Neither of these, or several."""

    def partition_of(self, key: bytes, partitions: int) -> int | None:
        """The partition of ``key`` among ``partitions``; None if nobody knows."""
        if self is Partitioner.MURMUR2:
            return partition_for(key, partitions)
        return crc32(key) % partitions if self is Partitioner.CRC32 else None
