"""The program that runs the rows: it finds the row of each test, and forgets no test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults import __main__ as command
from tests.faults.__main__ import HERE, ROOT, main, named_by_the_page, reported, rows

pytestmark = pytest.mark.cheap


def test_a_test_belongs_to_the_row_in_its_name_and_to_that_of_its_parameters_where_it_plays_several() -> None:
    one = "tests/faults/test_frozen.py::test_row_17_an_actor_stands_still"
    two = "tests/faults/test_brokers.py::test_rows_10_and_11_a_broker_is_killed[row_11 the coordinator]"
    found = rows(f"{one}\n{two}\n\n2 tests collected")
    assert {(17, one), (11, two)} <= set(found)
    assert [row for row, _ in found] == sorted(row for row, _ in found)
    assert reported(one) == "an actor stands still"
    assert (
        reported("tests/elastic/test_elastic.py::test_a_node_is_lost")
        == "tests/elastic/test_elastic.py: a node is lost"
    )


def test_the_tests_of_other_folders_that_the_page_names_exist() -> None:
    named = named_by_the_page(r"`(tests/[^`]+)`")
    assert len(named) > 15
    for _, test in named:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text() or not name, test


def test_the_page_names_for_each_row_the_files_of_this_folder_that_play_it() -> None:
    files = (file for file in HERE.glob("test_*.py") if file.name != Path(__file__).name)
    played = {(int(row), file.name) for file in files for row in re.findall(r"row_(\d+)[ _]", file.read_text())}
    assert set(named_by_the_page(r"`(test_\w+\.py)`")) == played


@pytest.mark.parametrize(
    ("only", "message"),
    [("x", "--only 'x' is no list of rows, such as 12,13"), ("30,999", "no test plays row 999")],
)
def test_rows_that_there_are_not_are_refused_and_not_taken_for_held(
    only: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "play", lambda test: pytest.fail(f"{test} is played"))
    with pytest.raises(SystemExit) as ended:
        main(["--only", only])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
