"""What runs the rows: which row a test belongs to, and that none is forgotten."""

from __future__ import annotations

import pytest

from tests.faults import __main__ as command
from tests.faults.__main__ import ELSEWHERE, ROOT, main, named, row_of, rows

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


@pytest.mark.parametrize(
    ("only", "said"),
    [("x", "--only 'x' is no list of rows, such as 12,13"), ("30,999", "no test plays row 999")],
)
def test_rows_that_there_are_not_are_refused_and_not_taken_for_held(
    only: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "play", lambda test: pytest.fail(f"{test} is played"))
    with pytest.raises(SystemExit) as ended:
        main(["--only", only])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
