"""A sample of keys, chosen by the keys alone: so that everyone chooses the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

from penstock.state.range_digests import Row

_MILLION = 1_000_000


@dataclass(frozen=True)
class KeySample:
    """About ``per_million`` of each million keys. By another hash than the one that chooses their partitions."""

    per_million: int

    def has(self, key: bytes) -> bool:
        """Returns True if ``key`` is in the sample."""
        return crc32(key) % _MILLION < self.per_million

    def of_rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yields those of ``rows`` whose keys are in the sample."""
        most = self.per_million
        return (row for row in rows if crc32(row[0]) % _MILLION < most)
