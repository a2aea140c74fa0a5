"""The partitioners with which other programs may have written a topic."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from zlib import crc32

from penstock.common.murmur2 import partition_for


class Partitioner(StrEnum):
    """The function that assigns a record's key to a partition."""

    MURMUR2 = "murmur2"
    """Kafka's default, and penstock's own."""
    CRC32 = "crc32"
    """librdkafka's default (``consistent_random``), and so that of confluent-kafka programs that set no other."""
    UNKNOWN = "unknown"
    """Another partitioner, or several."""

    def partition_of(self, key: bytes, partitions: int) -> int | None:
        """Returns the partition of ``key`` among ``partitions``; None if that is not known."""
        if self is Partitioner.MURMUR2:
            return partition_for(key, partitions)
        return crc32(key) % partitions if self is Partitioner.CRC32 else None


_FIRST_KEYS = 64
_KEYS_OF_A_BATCH = 2
_DOUBT = 100
"""Among this number of partitions, one may look by accident as if another partitioner had written it."""


class KeySample:
    """Some of the keys of one partition, of ``partitions``, and the partitioners that would have put them there.

    The first records are looked at, then a few of each batch, until it is sure that the keys are not Kafka's default
    partitioner's. Null keys, and empty ones, which librdkafka places at random, prove nothing.
    """

    __slots__ = (
        "_crc32",
        "_different",
        "_left",
        "_looked_at",
        "_murmur2",
        "_partition",
        "_partitions",
        "misplaced",
        "misplaced_key",
    )

    def __init__(self, partition: int, partitions: int) -> None:
        self._partition = partition
        self._partitions = partitions
        self._left = _FIRST_KEYS
        self._looked_at = 0
        self._murmur2 = self._crc32 = True  # all keys so far may be of these
        self._different: set[bytes] = set()
        self.misplaced_key: bytes | None = None
        """The first key that murmur2 places elsewhere."""
        self.misplaced = 0
        """The number of inspected keys that murmur2 places elsewhere."""

    def look(self, keys: Sequence[bytes | None]) -> None:
        """Look at some of the keys of a batch."""
        few, partitions, here = self._left or _KEYS_OF_A_BATCH, self._partitions, self._partition
        for key in keys[:few]:
            if not key:
                continue
            self._looked_at += 1
            self._left = max(self._left - 1, 0)
            if partition_for(key, partitions) != here:
                self._murmur2 = False
                self.misplaced += 1
                if self.misplaced_key is None:
                    self.misplaced_key = key
            if crc32(key) % partitions != here:
                self._crc32 = False
            elif len(self._different) < _DOUBT:
                self._different.add(key)

    @property
    def partitioner(self) -> Partitioner | None:
        """The partitioner that has probably placed the keys; None while that is a guess."""
        if not self._looked_at or self._partitions == 1:
            return None
        if self._murmur2:
            return None if self._crc32 else Partitioner.MURMUR2
        if not self._crc32:
            return Partitioner.UNKNOWN
        # Keys of any other partitioner would all agree with CRC32 once in partitions ** keys.
        sure = self._partitions ** len(self._different) >= _DOUBT or self._looked_at >= _DOUBT
        return Partitioner.CRC32 if sure else None
