"""Two stores are compared by digests of ranges first, and row by row only where these differ."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from penstock.state.range_digests import (
    RangeDigest,
    Row,
    RowDifference,
    differing_rows,
    digests_in,
    digests_of,
    rows_of_range,
)

ROWS = st.dictionaries(st.binary(min_size=1, max_size=3), st.binary(max_size=3), max_size=30)


def in_order(rows: Mapping[bytes, bytes]) -> list[Row]:
    return sorted(rows.items())


def begins(digests: list[RangeDigest]) -> list[bytes]:
    return [each.begin for each in digests]


@given(ROWS, st.integers(1, 7))
def test_the_same_rows_have_the_same_digests_however_they_are_cut(rows: dict[bytes, bytes], size: int) -> None:
    chosen = digests_of(in_order(rows), size)
    assert list(digests_in(in_order(rows), begins(chosen))) == chosen
    assert sum(each.rows for each in chosen) == len(rows)
    assert all(each.rows <= size for each in chosen)


@given(ROWS, ROWS, st.integers(1, 7))
def test_the_differences_are_those_of_the_ranges_that_differ_and_no_others(
    expected: dict[bytes, bytes], found: dict[bytes, bytes], size: int
) -> None:
    live = digests_of(in_order(found), size)
    ours = list(digests_in(in_order(expected), begins(live)))
    ends = [*begins(live)[1:], None]
    differences: list[RowDifference] = []
    for mine, theirs, end in zip(ours, live, ends, strict=True):
        if mine != theirs:
            parts = [
                list(rows_of_range((row for row in in_order(rows) if row[0] >= mine.begin), end))
                for rows in (expected, found)
            ]
            differences += differing_rows(*parts)
    keys = sorted(expected.keys() | found.keys())
    assert differences == [
        RowDifference(key, expected.get(key), found.get(key)) for key in keys if expected.get(key) != found.get(key)
    ]


def test_bytes_that_move_from_the_key_to_the_row_are_seen() -> None:
    assert digests_of([(b"ab", b"c")]) != digests_of([(b"a", b"bc")])


def test_no_rows_are_one_empty_range() -> None:
    (only,) = digests_of([])
    assert (only.begin, only.rows) == (b"", 0)
    assert list(digests_in([], [b""])) == [only]
    assert list(digests_in([(b"a", b"1")], [b""])) != [only], "a row that the other side lacks"
