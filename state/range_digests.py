"""Digests of ranges of rows: two stores are compared without a look at the rows that are the same in both.

One side chooses the ranges and computes the digest of each (:func:`digests_of`); the other computes the digests of the
same ranges of its rows (:func:`digests_in`). Only the rows of ranges that differ are then laid side by side
(:func:`differing_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from struct import Struct

Row = tuple[bytes, bytes]
"""The key of a row, and the row."""

ROWS_PER_RANGE = 2048
"""A range that differs is read again, so it should be small. The digest of each travels, so it should be large."""
_DIGEST_BYTES = 16
_LENGTHS = Struct(">II").pack
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class RangeDigest:
    """The rows from ``begin`` up to the ``begin`` of the next range. That of the first range is empty: it begins before
    all rows. The last one has no end."""

    begin: bytes
    rows: int
    digest: bytes


@dataclass(frozen=True)
class RowDifference:
    """A row that is not the same on both sides. None: it is only on the other one."""

    key: bytes
    expected: bytes | None
    found: bytes | None


def digests_of(rows: Iterable[Row], rows_per_range: int = ROWS_PER_RANGE) -> list[RangeDigest]:
    """Returns digests of all ``rows``, which come by key, in ranges of ``rows_per_range`` rows: one at least."""
    digests: list[RangeDigest] = []
    coming = iter(rows)
    begin = b""
    while some := list(islice(coming, rows_per_range)):
        digests.append(RangeDigest(begin if not digests else some[0][0], len(some), _digest_of(some)))
    return digests or [RangeDigest(begin, 0, _digest_of(()))]


def digests_in(rows: Iterable[Row], begins: Sequence[bytes]) -> Iterator[RangeDigest]:
    """Yields the digests of ``rows``, which come by key, in the ranges that begin at ``begins``; the first is empty."""
    coming = iter(rows)
    row = next(coming, None)
    for begin, end in zip(begins, [*begins[1:], None], strict=True):
        count, hashed, some = 0, blake2b(digest_size=_DIGEST_BYTES), list[bytes]()
        while row is not None and (end is None or row[0] < end):
            key, data = row
            some += (_LENGTHS(len(key), len(data)), key, data)
            count += 1
            if count % _ROWS_AT_ONCE == 0:
                hashed.update(b"".join(some))
                some.clear()
            row = next(coming, None)
        hashed.update(b"".join(some))
        yield RangeDigest(begin, count, hashed.digest())


def _digest_of(rows: Iterable[Row]) -> bytes:
    # The lengths separate keys from rows: else bytes could move from one to the other unseen.
    parts = [part for key, data in rows for part in (_LENGTHS(len(key), len(data)), key, data)]
    return blake2b(b"".join(parts), digest_size=_DIGEST_BYTES).digest()


def rows_of_range(rows: Iterable[Row], end: bytes | None) -> Iterator[Row]:
    """Yields ``rows``, which come by key, as far as they are before ``end``; None: all."""
    for row in rows:
        if end is not None and row[0] >= end:
            return
        yield row


def differing_rows(expected: Iterable[Row], found: Iterable[Row]) -> Iterator[RowDifference]:
    """Yields, by key, each row that is not the same in both; both come by key."""
    ours, theirs = iter(expected), iter(found)
    left, right = next(ours, None), next(theirs, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None
            yield RowDifference(left[0], left[1], None)
            left = next(ours, None)
        elif left is None or right[0] < left[0]:
            yield RowDifference(right[0], None, right[1])
            right = next(theirs, None)
        else:
            if left[1] != right[1]:
                yield RowDifference(left[0], left[1], right[1])
            left, right = next(ours, None), next(theirs, None)
