"""Gathered rows come out in order, each with its last value, in both forms alike."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.state.disk import gathered_rows

FORMS: list[Any] = [gathered_rows.GatheredRows, gathered_rows._GatheredRows]
DELETED = "deleted"

Rows = dict[bytes, bytes | None]
Range = tuple[bytes, bytes]


def test_with_a_compiler_the_compiled_form_is_in_use() -> None:
    compiler = shutil.which((os.environ.get("CC") or "cc").split()[0])
    assert FORMS[0] is not FORMS[1] or not compiler


class Writer(dict[bytes, Any]):
    """Stands in for a file: the rows that it is given, in that order."""

    def __delitem__(self, key: bytes) -> None:
        self[key] = DELETED


def written(form: Any, steps: list[Rows | Range], most: int) -> list[tuple[bytes, Any]]:
    """Returns what ``form`` writes of these steps, ``most`` rows at a time."""
    gathered, writer = form(), Writer()
    for step in steps:
        if isinstance(step, dict):
            gathered.add(step)
        else:
            gathered.delete_range(*step)
    total = 0
    while number := gathered.write(writer, most):
        assert number <= most
        total += number
    assert total == len(writer)
    return list(writer.items())


def model(steps: list[Rows | Range]) -> list[tuple[bytes, Any]]:
    rows: Rows = {}
    for step in steps:
        if isinstance(step, dict):
            rows.update(step)
        else:
            rows = {key: row for key, row in rows.items() if not step[0] <= key < step[1]}
    return [(key, DELETED if row is None else row) for key, row in sorted(rows.items())]


# Keys that differ behind the bytes by which the compiled form compares them first, and keys that end there.
FRONTS = (b"", b"\x00", b"\xff", b"user-", b"12345678", b"0123456789abcde", b"0123456789abcdef", b"0123456789abcdef0")
KEYS = st.builds(bytes.__add__, st.sampled_from(FRONTS), st.binary(max_size=3))
STEPS = st.lists(st.dictionaries(KEYS, st.none() | st.binary(max_size=9), max_size=40) | st.tuples(KEYS, KEYS))


@pytest.mark.parametrize("form", FORMS)
@given(steps=STEPS, most=st.integers(1, 50))
@example([{b"a\x00": b"1"}, {b"a": b"2"}, {b"a\x00\x00": b"3"}], 1)  # as numbers they are the same
@example([{b"a": b"1", b"c": b"2"}, (b"a", b"c"), {b"a": None}, (b"b", b"b"), (b"", b"a"), {b"b": b"3"}], 2)
def test_the_last_row_of_each_key_is_written_in_order(form: Any, steps: list[Rows | Range], most: int) -> None:
    assert written(form, steps, most) == model(steps)


@pytest.mark.submission
@pytest.mark.parametrize("form", FORMS)
@given(random=st.randoms(use_true_random=False), sizes=st.lists(st.integers(0, 3000), max_size=8))
def test_so_are_many_rows_in_portions_of_any_size(form: Any, random: Any, sizes: list[int]) -> None:
    steps: list[Rows | Range] = [
        {b"user-%d" % random.randrange(4000): b"%d-%d" % (step, row) for row in range(size)}
        for step, size in enumerate(sizes)
    ]
    assert written(form, steps, 1000) == model(steps)


def test_decreasing_portions_never_make_too_many_runs() -> None:
    steps: list[Rows | Range] = [{b"%d" % row: b"%d" % size for row in range(size)} for size in range(300, 0, -1)]
    assert written(FORMS[0], steps, 1000) == model(steps)


@pytest.mark.parametrize("form", FORMS)
def test_their_memory_grows_with_the_rows(form: Any) -> None:
    gathered = form()
    assert gathered.resident_bytes == 0
    gathered.add({b"key-%d" % number: bytes(100) for number in range(1000)})
    assert 1000 * 106 < gathered.resident_bytes < 1000 * 400
