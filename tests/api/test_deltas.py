"""Differences of live documents."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.api.page.deltas import delta_of
from tests.api.events import applied

ROWS = st.dictionaries(st.sampled_from("abc"), st.fixed_dictionaries({"lag": st.none() | st.integers(0, 2)}))
DOCUMENTS = st.fixed_dictionaries({"tasks": ROWS, "actors": ROWS})


def test_only_changed_rows_travel_and_a_row_that_is_gone_is_null() -> None:
    before = {"tasks": {"0_0": {"lag": 1}, "0_1": {"lag": 2}}, "actors": {"stream/1": {"pid": 3}}}
    after: dict[str, Any] = {"tasks": {"0_0": {"lag": None}, "0_2": {"lag": 0}}, "actors": {"stream/1": {"pid": 3}}}
    assert delta_of(before, after) == {"tasks": {"0_0": {"lag": None}, "0_1": None, "0_2": {"lag": 0}}}
    assert delta_of(after, after) == {}


def test_a_section_may_come_and_go() -> None:
    assert delta_of({}, {"tasks": {"0_0": {}}}) == {"tasks": {"0_0": {}}}
    assert delta_of({"tasks": {"0_0": {}}}, {}) == {"tasks": {"0_0": None}}


@given(before=DOCUMENTS, after=DOCUMENTS)
def test_a_document_with_its_changes_is_the_next_document(before: Any, after: Any) -> None:
    assert applied(before, delta_of(before, after)) == after
