"""Comparison of what a live application wrote with what was expected, case by case."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.common.records import NO_HEADERS, SENT_NOW
from tests.live.partitioned_driver import Written

Topics = Mapping[str, list[list[Written]]]


def differences(
    expected: Topics, actual: Topics, topics: set[str], headers: bool = True, ordered: bool = True
) -> Iterator[str]:
    """Yields the differences in ``topics``. In each partition the records of each key must be the same; in the same
    order if one task has written them. The order among keys is open, and so is the partition of records without a key.
    ``headers``, ``ordered``: True if they, and the order, count."""
    for topic in sorted(topics):
        left, right = expected.get(topic, []), actual.get(topic, [])
        if not headers:
            left, right = _without_headers(left), _without_headers(right)
        if missing := [side for side, rows in (("expected", left), ("live", right)) if not rows]:
            if any(left) or any(right):
                yield f"{topic}: nothing {missing[0]}"
            continue
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _of_partition(f"{topic}[{number}]", one, other, ordered)
        without = [Counter(_row(row) for rows in side for row in rows if row.key is None) for side in (left, right)]
        if without[0] != without[1]:
            yield f"{topic}: without a key expected {without[0] - without[1]}, live {without[1] - without[0]}"


def _without_headers(partitions: list[list[Written]]) -> list[list[Written]]:
    return [[replace(row, headers=NO_HEADERS) for row in rows] for rows in partitions]


def last_differences(
    expected: Topics, actual: Topics, topics: set[str], expired: frozenset[str] = frozenset(), by_clock: bool = False
) -> Iterator[str]:
    """Yields the differences in the last row of each key of changelogs: several updates may be one row of a commit, and
    a key that has come and gone between two commits is not there. Records without a key have no last row.
    Live rows of topics that are ``expired`` may be missing: a backfill does not hand over what has expired.
    ``by_clock``: True if the wall clock determines when rows are deleted."""
    for topic in sorted(topics):
        there = expected.get(topic, [[] for _ in actual[topic]])
        for number, (one, other) in enumerate(zip(there, actual[topic], strict=True)):
            left, right = ({row.key: row for row in rows if row.key is not None} for rows in (one, other))
            for key in left | right:
                last = [row for row in (left.get(key), right.get(key)) if row is not None]
                if all(row.value is None for row in last) and len(last) == 1:
                    continue
                if topic in expired and key not in right:
                    continue
                if by_clock and all(row.value is None for row in last):
                    continue
                if len(last) == 1 or _differ(*last):
                    both = f"\n      expected {left.get(key)}\n      live     {right.get(key)}"
                    yield f"{topic}[{number}]: last of {key!r}{both}"


def _of_partition(place: str, expected: list[Written], actual: list[Written], ordered: bool) -> Iterator[str]:
    left, right = _by_key(expected), _by_key(actual)
    for key in left | right:
        one, other = left.get(key, []), right.get(key, [])
        if not ordered or len({row.task for row in one}) > 1:
            one, other = sorted(one, key=_in_any_order), sorted(other, key=_in_any_order)
        if len(one) != len(other) or any(map(_differ, one, other)):
            yield f"{place}: of {key!r}\n      expected {list(map(_row, one))}\n      live     {list(map(_row, other))}"


def _by_key(rows: list[Written]) -> dict[bytes, list[Written]]:
    found: dict[bytes, list[Written]] = defaultdict(list)
    for row in rows:
        if row.key is not None:
            found[row.key].append(row)
    return found


def _differ(expected: Written, actual: Written) -> bool:
    timed = expected.timestamp != SENT_NOW
    return _row(expected)[:2] != _row(actual)[:2] or (timed and expected.timestamp != actual.timestamp)


def _in_any_order(row: Written) -> tuple[int, bool, bytes, str]:
    return row.timestamp, row.value is None, row.value or b"", repr(tuple(row.headers))


def _row(row: Written) -> tuple[bytes | None, tuple[Any, ...], int]:
    return row.value, tuple(row.headers), row.timestamp
