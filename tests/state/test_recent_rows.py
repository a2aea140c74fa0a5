"""The rows of a join that are in memory, compiled and in Python: both against a list that is looked through."""

from __future__ import annotations

import gc
import os
import shutil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.windowed import recent_rows
from penstock.state.windowed.recent_rows import RecentRows

FORMS: list[Any] = [recent_rows.RecentRows, recent_rows._RecentRows]
KEYS = (b"", b"a", b"b")
RETENTION_MS = 30
LATEST = (1 << 63) - 1
TIMES = st.one_of(st.integers(0, 5), st.integers(0, 100))
"""Some of them often the same, in one pane."""
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(KEYS), TIMES),
        st.tuples(st.just("of_key"), st.sampled_from(KEYS), TIMES, TIMES),
        st.tuples(st.just("expire"), TIMES),
        st.tuples(st.just("drop_oldest")),
        st.tuples(st.just("forget"), TIMES),
        st.tuples(st.just("take_updates")),
    ),
    max_size=60,
)


@pytest.fixture(params=FORMS, ids=["in use", "Python"])
def form(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_with_a_compiler_the_compiled_form_is_in_use() -> None:
    compiler = shutil.which((os.environ.get("CC") or "cc").split()[0])
    assert FORMS[0] is not FORMS[1] or not compiler


class Model:
    """All rows, in the order in which they came, with what was taken of them."""

    def __init__(self, pane_ms: int) -> None:
        self.pane_ms = pane_ms
        self.rows: list[tuple[bytes, int, object, bytes]] = []
        self.waiting: list[tuple[int, object, bytes]] = []

    def keep(self, first_pane: int) -> None:
        self.rows = [row for row in self.rows if row[1] // self.pane_ms >= first_pane]
        self.waiting = [row for row in self.waiting if row[0] // self.pane_ms >= first_pane]

    def of_key(self, key: bytes, time_from: int, time_to: int) -> list[tuple[int, object, bytes]]:
        found = [row[1:] for row in self.rows if row[0] == key and time_from <= row[1] <= time_to]
        return sorted(found, key=lambda row: row[0])


@given(steps=STEPS)
@pytest.mark.parametrize("form", FORMS, ids=["in use", "Python"])
def test_it_finds_what_a_list_of_all_rows_has(form: Any, steps: list[tuple[Any, ...]]) -> None:
    recent: RecentRows = form(RETENTION_MS)
    model = Model(recent.pane_ms)
    for number, (what, *given_) in enumerate(steps):
        if what == "add":
            key, time = given_
            row = (time, ["value", number], b"%s %d" % (key, number))
            taken = recent.add(key, *row)
            assert taken == (time >= recent.complete_from)
            if taken:
                model.rows.append((key, *row))
                model.waiting.append(row)
        elif what == "of_key":
            key, time_from, time_to = given_
            found = recent.of_key(key, time_from, time_to) if time_from <= time_to else None
            assert (found is None) == (time_from > time_to or time_from < recent.complete_from)
            if found is not None:
                assert list(found) == model.of_key(key, time_from, time_to)
        elif what == "expire":
            recent.expire(given_[0])
            model.keep(given_[0] // recent.pane_ms)
        elif what == "drop_oldest" and model.rows:
            oldest = min(row[1] for row in model.rows) // recent.pane_ms
            before = recent.complete_from
            recent.drop_oldest()
            model.keep(oldest + 1)
            assert recent.complete_from == max(before, (oldest + 1) * recent.pane_ms)
        elif what == "forget":
            recent.forget(given_[0])
            model.keep(1000)
            assert recent.complete_from == given_[0]
        elif what == "take_updates":
            by_key = sorted(model.waiting, key=lambda row: row[2])
            assert sorted(recent.take_updates(), key=lambda row: row[2]) == by_key
            model.waiting = []
        assert recent.count() == len(model.rows)
        assert recent.count_updates() == len(model.waiting)


def test_a_row_that_comes_late_is_ordered_behind_those_of_its_time(form: Any) -> None:
    recent = form(RETENTION_MS)
    for number, time in enumerate((1, 2, 1, 2, 0)):
        recent.add(b"k", time, number, b"")
    assert [row[1] for row in recent.of_key(b"k", 0, 9)] == [4, 0, 2, 1, 3]


def test_a_row_behind_the_last_time_has_its_place_in_the_order(form: Any) -> None:
    recent = form(LATEST)
    for number in range(3):
        recent.add(b"k", LATEST, number, b"")
    recent.add(b"k", LATEST - 1, 3, b"")
    recent.add(b"k", LATEST, 4, b"")
    assert [row[1] for row in recent.of_key(b"k", LATEST - 1, LATEST)] == [3, 0, 1, 2, 4]


def test_the_pane_of_the_last_time_there_is_is_the_last_one_that_is_looked_into(form: Any) -> None:
    recent = form(1)
    recent.add(b"k", LATEST, "value", b"")
    assert list(recent.of_key(b"k", LATEST - 2, LATEST)) == [(LATEST, "value", b"")]


def test_behind_the_last_time_there_is_nothing_is_known_where_it_was_seen(form: Any) -> None:
    recent = form(LATEST)
    recent.add(b"k", LATEST, 1, b"")
    recent.drop_oldest()
    assert recent.complete_from > LATEST
    recent.forget(LATEST + 1)
    assert recent.complete_from == LATEST + 1
    assert not recent.add(b"k", LATEST, 2, b"")
    assert recent.of_key(b"k", LATEST, LATEST) is None


def test_times_that_are_no_numbers_and_keys_that_cannot_be_looked_for_are_refused(form: Any) -> None:
    recent = form(RETENTION_MS)
    recent.add(b"k", 1, "value", b"k1")
    with pytest.raises(TypeError):
        recent.of_key([], 0, 5)
    with pytest.raises(TypeError):
        recent.add(b"k", "1", "value", b"k1")


def test_rows_let_go_of_their_values(form: Any) -> None:
    class Value:
        """Counts by the collector's list."""

    def alive() -> int:
        gc.collect()
        return sum(type(each) is Value for each in gc.get_objects())

    recent = form(RETENTION_MS)
    for number in range(5):
        recent.add(b"k", 10 + number % 2, Value(), b"k")
    assert alive() == 5
    recent.take_updates()
    recent.expire(20)
    assert alive() == 0
