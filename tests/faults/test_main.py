"""What runs the rows: which row a test belongs to, and that none is forgotten."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import ELSEWHERE, ROOT, named, row_of, rows

pytestmark = pytest.mark.cheap


def test_a_test_belongs_to_the_row_in_its_name_and_to_that_of_its_parameters_where_it_plays_several() -> None:
    one = "tests/faults/test_frozen.py::test_row_17_an_actor_stands_still"
    two = "tests/faults/test_brokers.py::test_rows_10_and_11_a_broker_is_killed[row_11 the coordinator]"
    assert (row_of(one), row_of(two)) == (17, 11)
    assert named(one) == "an actor stands still"
    found = rows(f"{one}\n{two}\n\n2 tests collected")
    assert [test for test in found if test not in ELSEWHERE] == [two, one]
    assert found == sorted(found, key=row_of)


def test_what_other_tests_play_is_there() -> None:
    for test in ELSEWHERE:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text()
        assert f"def {name.partition('[')[0]}(" in text or not name, test
