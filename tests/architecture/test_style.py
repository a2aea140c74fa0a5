"""The checks of ``style.py`` find what docs/STYLE.md bans, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.style import problems_of_cython, problems_of_document, problems_of_python

FILE = Path("some.py")


QUESTIONS = ("What", "Whether", "How", "Where", "Who", "Whom", "Whose", "Which")
BANNED = tuple(
    "".join(pair) for pair in [("an", "ew"), ("se", "at"), ("who", "ever"), ("save ", "for"), ("stood ", "still")]
)
"""In pieces, so that these words stay out of this file."""
AGAIN = BANNED[0]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("above", ["", "def f():\n    ", "A = 1\n", "class C:\n    a: int\n    "])
def test_a_docstring_that_opens_with_an_indirect_question_is_found(above: str, question: str) -> None:
    [problem] = problems_of_python(FILE, f'{above}"""{question} it does."""', with_strings=True)
    assert problem.startswith("some.py:")


@pytest.mark.parametrize("word", BANNED)
@pytest.mark.parametrize("text", ["# {} here", '"""Looks {} at it."""', 'log("looks {} at it")'])
def test_a_banned_word_is_found(text: str, word: str) -> None:
    [problem] = problems_of_python(FILE, text.format(word), with_strings=True)
    assert problem.startswith(f"some.py:1: '{word}'")


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


@pytest.mark.parametrize("argument", ["help", "description", "summary", "title"])
@pytest.mark.parametrize("text", [*(f"{it} it does" for it in QUESTIONS), "So many ms to wait", "Waits for nobody"])
@pytest.mark.parametrize("form", ["'{}'", "f'{} {{unit}}'", "'{}' if x else ''"])
def test_a_riddle_in_a_help_text_is_found(argument: str, text: str, form: str) -> None:
    [problem] = problems_of_python(FILE, f"x = Option(0, {argument}={form.format(text)})", with_strings=True)
    assert "help text" in problem


@pytest.mark.parametrize(
    "code",
    [
        'Option(help="Number of ms to wait")',
        'Option(help="Show what would be done; the application will do it later")',
        'Option(name="Which")',
        'Option(help=texts["Which"])',
        'Option(help=f"{which} What")',
    ],
)
def test_other_help_texts_are_left_alone(code: str) -> None:
    assert list(problems_of_python(FILE, code, with_strings=True)) == []


def test_texts_of_tests_are_left_alone() -> None:
    assert list(problems_of_python(FILE, f'assert x, "made {AGAIN}"', with_strings=False)) == []


def test_cython_is_read_line_by_line() -> None:
    found = list(problems_of_cython(Path("a.pyx"), f'cdef f():\n    """{QUESTIONS[0]} it is."""\n    # {AGAIN}\n'))
    assert [each.split()[0] for each in found] == ["a.pyx:2:", "a.pyx:3:"]


def test_code_in_a_document_is_left_alone() -> None:
    text = f"Begin {AGAIN}.\n\n```\n{AGAIN}\n```\n\nThe option `{AGAIN}`, and `save\nfor`.\n\nBegin {AGAIN}.\n"
    assert [each.split()[0] for each in problems_of_document(Path("a.md"), text)] == ["a.md:1:", "a.md:10:"]
