"""Each warning, each error and each public error class has its section in docs/messages, and no other has one."""

from __future__ import annotations

import re
from functools import cache

import pytest

import penstock as ps
from docsite.messages import GIVEN, logged
from penstock.common.explained import Explanation, explanations
from tests.architecture.sources import PACKAGES, ROOT

pytestmark = pytest.mark.xdist_group("messages")  # they share what takes seconds to find
ALL = list(explanations())
OF_LINES = [each for each in ALL if each.page != "messages/errors.md"]


@cache
def lines() -> dict[str, str]:
    """Returns the texts of the code's log lines, each with a place."""
    return logged(tuple(folder for folder in PACKAGES if folder != "testing"))


def test_every_line_of_the_log_is_explained() -> None:
    assert len(lines()) > 100
    assert {text: place for text, place in lines().items() if not any(it.explains(text) for it in OF_LINES)} == {}


def test_every_section_explains_a_line_of_the_code() -> None:
    assert len(ALL) == len({it.message for it in ALL})
    assert [it.message for it in OF_LINES if not any(it.explains(text) for text in lines())] == []


def test_every_public_error_is_explained_and_no_other() -> None:
    errors = {name for name in ps.__all__ if isinstance(it := getattr(ps, name), type) and issubclass(it, Exception)}
    assert {it.message for it in ALL if it.page == "messages/errors.md"} == errors


def test_every_section_has_a_meaning_and_a_remedy() -> None:
    sections = sum(page.read_text().count("\n## ") for page in (ROOT / "docs" / "messages").glob("*.md"))
    assert len(ALL) == sections
    assert [it.message for it in ALL if not it.meaning or not it.what_to_do] == []


def test_every_section_can_be_understood_alone_as_explain_prints_it() -> None:
    assert [it.message for it in ALL if re.match("The same|As ", it.meaning) or re.match("as for", it.what_to_do)] == []


def test_the_texts_that_are_given_by_hand_are_in_the_code() -> None:
    places = " ".join(lines().values())
    assert [file for file, _ in GIVEN if file not in places] == []


@pytest.mark.parametrize(
    ("message", "text", "expected"),
    [
        ("actor lost", "actor lost", True),
        ("lease expired", "lease expired: processing paused", True),
        ("commit refused", "commit refused, tasks dropped", True),
        ("…, going back", "records not delivered, going back to the last commit", True),
        ("commit", "commits refused", False),
        ("actor lost", "actor", False),
    ],
)
def test_a_message_explains_what_begins_with_it(message: str, text: str, expected: bool) -> None:
    assert Explanation(message, "", "", "").explains(text) is expected
