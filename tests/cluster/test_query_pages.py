"""Ranges by pages: each row once, in the order of keys, for any page size; actors are stand-ins, no Ray runs."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cluster.queries.queries import StateQueries
from penstock.state.queries import RangeQuery
from tests.cluster.fake_actors import PARTITIONS, WORDS, FakeCoordinator, all_pages, ask
from tests.cluster.fake_actors import coordinator as coordinator


@pytest.mark.parametrize("limit", [1, 4, 5, 24, 25, 100])
def test_pages_of_a_range_give_every_row_once_in_the_order_of_keys(coordinator: FakeCoordinator, limit: int) -> None:
    assert ask(lambda queries: all_pages(queries, limit, "word-03")) == WORDS[3:]
    asked = [query for actor in coordinator.actors.values() for call in actor.calls for query in call]
    assert {query.limit for query in asked} == {limit + 1}


def test_a_range_includes_both_ends_and_refuses_a_foreign_cursor(coordinator: FakeCoordinator) -> None:
    page = ask(lambda queries: queries.page("counts", RangeQuery("word-03", "word-05"), 10))
    assert [entry.key for entry in page.entries] == WORDS[3:6]
    with pytest.raises(ValueError, match="not a cursor"):
        ask(lambda queries: queries.page("counts", RangeQuery(None, None), 10, "ü?"))


def test_a_range_is_put_together_from_pieces_whatever_their_size(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.queries.queries.PIECE_ROWS", 3)
    for cut_at in (1, 2, 100):
        for actor in coordinator.actors.values():
            actor.cut_at = cut_at
        assert ask(lambda queries: all_pages(queries, 1)) == WORDS
        assert ask(lambda queries: all_pages(queries, 7)) == WORDS
        assert ask(lambda queries: all_pages(queries, 100)) == WORDS


def test_a_page_ends_early_where_its_rows_are_large(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.queries.range_pages._PAGE_BYTES", 70)  # ten words of seven bytes
    page = ask(lambda queries: queries.page("counts", RangeQuery(None, None), 100))
    assert [entry.key for entry in page.entries] == WORDS[:10]
    assert ask(lambda queries: all_pages(queries, 100)) == WORDS


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_rows_that_two_tasks_have_of_one_key_are_on_one_page(coordinator: FakeCoordinator, limit: int) -> None:
    for actor in coordinator.actors.values():
        actor.has_every_key = True
    pages: list[list[Any]] = []

    async def read(queries: StateQueries) -> None:
        cursor = None
        while not pages or cursor is not None:
            page = await queries.page("counts", RangeQuery("word-21", None), limit, cursor)
            pages.append([entry.key for entry in page.entries])
            cursor = page.cursor

    ask(read)
    assert [key for page in pages for key in page] == [word for word in WORDS[21:] for _ in range(PARTITIONS)]
    assert all(len(page) >= limit for page in pages[:-1])


def test_a_key_that_cannot_be_read_is_given_as_bytes_and_hides_no_other(coordinator: FakeCoordinator) -> None:
    bad = b"word-03\xff"
    for actor in coordinator.actors.values():
        actor.keys = [*actor.keys, bad]
    expected: list[Any] = [*WORDS[:4], bad, *WORDS[4:]]
    assert ask(lambda queries: all_pages(queries, 100)) == expected
    assert ask(lambda queries: all_pages(queries, 2)) == expected, "and a cursor behind it works"
    with pytest.raises(ValueError, match="not a cursor"):
        ask(lambda queries: queries.page("counts", RangeQuery(None, None), 10, "no cursor!"))
