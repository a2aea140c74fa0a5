"""The hash of records: the same however they are cut into files and batches, another if any byte differs."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.archive.records import content_digest
from tests.pipeline.archive.making import table

some_bytes = st.none() | st.binary(max_size=5)


def records(rows: list[tuple[bytes | None, bytes | None]], wide: bool = False) -> pa.Table:
    kind = pa.large_binary() if wide else pa.binary()
    return pa.table(
        {
            "offset": pa.array(range(7, 7 + len(rows)), pa.int64()),
            "key": pa.array([key for key, _ in rows], kind),
            "value": pa.array([value for _, value in rows], kind),
        }
    )


@given(st.lists(st.tuples(some_bytes, some_bytes), max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_the_hash_does_not_depend_on_batches(
    rows: list[tuple[bytes | None, bytes | None]], cut: int, other: int
) -> None:
    whole = content_digest([records(rows)])
    first, second = sorted((cut, other))
    parts = [records(rows).slice(begin, end - begin) for begin, end in ((0, first), (first, second), (second, 99))]
    assert content_digest(parts) == whole
    assert content_digest([records(rows, wide=True)]) == whole


@pytest.mark.parametrize("column", ["key", "value"])
def test_the_hash_differs_if_a_byte_moves_between_records_or_a_null_is_empty(column: str) -> None:
    whole = table(range(20))
    index = whole.schema.get_field_index(column)
    values = whole.column(column).to_pylist()
    for changed in (
        [b"ab", b"c", *values[2:]],
        [b"a", b"bc", *values[2:]],
        [b"", *values[1:]],
        [None, *values[1:]],
        [*values[:-1], b"last"],
    ):
        other = whole.set_column(index, whole.schema.field(column), pa.array(changed, pa.binary()))
        assert content_digest([other]) != content_digest([whole])
    moved = table(range(1, 21)).set_column(index, whole.schema.field(column), whole.column(column))
    assert content_digest([moved]) != content_digest([whole])
