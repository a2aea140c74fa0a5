"""The checks of ``style.py`` find what docs/STYLE.md bans, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.style import problems_of_cython, problems_of_document, problems_of_python

FILE = Path("some.py")


@pytest.mark.parametrize(
    "text",
    [
        '"""What it does."""',
        'def f():\n    """Whether it runs."""',
        'A = 1\n"""How many there are."""',
        'class C:\n    a: int\n    """Where it lies."""',
        "# look at it anew",
        '"""Asks whoever is there."""',
        'log("the process stood still")',
    ],
)
def test_what_is_banned_is_found(text: str) -> None:
    [problem] = problems_of_python(FILE, text, with_strings=True)
    assert problem.startswith("some.py:")


@pytest.mark.parametrize(
    "text",
    [
        '"""Whatever it does."""',
        '"""Returns what it does, and who did it."""',
        'log("What now?")',
        "x = 'anewer'",
        "# saved for later, and still standing",
    ],
)
def test_nothing_else_is(text: str) -> None:
    assert list(problems_of_python(FILE, text, with_strings=True)) == []


def test_texts_of_tests_are_left_alone() -> None:
    assert list(problems_of_python(FILE, 'assert x, "made anew"', with_strings=False)) == []


def test_cython_is_read_line_by_line() -> None:
    found = list(problems_of_cython(Path("a.pyx"), 'cdef f():\n    """What it is."""\n    # anew\n'))
    assert [each.split()[0] for each in found] == ["a.pyx:2:", "a.pyx:3:"]


def test_code_in_a_document_is_left_alone() -> None:
    text = "Begin anew.\n\n```\nanew\n```\n\nThe option `anew`, and `save\nfor`.\n\nBegin anew.\n"
    assert [each.split()[0] for each in problems_of_document(Path("a.md"), text)] == ["a.md:1:", "a.md:10:"]
