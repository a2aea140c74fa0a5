"""Questions that a store does not answer, and pages of stores that pass over many rows: actors are stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.actors.store_queries import QueryFailure, StoreAnswer, StoreQuery
from penstock.cluster.queries.queries import StateQueries
from penstock.cluster.read_side import Reading
from penstock.common.errors import NotUpToBoundError, UnknownQueryError
from penstock.common.position import Position, PositionBound
from penstock.state.queries import KeyQuery, RangeQuery
from tests.cluster.fake_actors import WORDS, FakeCoordinator, ask
from tests.cluster.fake_actors import coordinator as coordinator
from tests.waiting import PATIENCE_S


def test_a_kind_of_question_that_the_store_does_not_answer_is_an_error_of_its_own(coordinator: FakeCoordinator) -> None:
    coordinator.actors["b"].failure = QueryFailure.UNKNOWN_QUERY_TYPE
    with pytest.raises(UnknownQueryError, match="'counts' is a timestamped key-value store: no good"):
        ask(lambda queries: queries.approximate_num_entries("counts"))
    coordinator.actors["b"].answered = ("KeyQuery",)
    with pytest.raises(UnknownQueryError, match="store and does not answer CountQuery; it answers: KeyQuery") as error:
        ask(lambda queries: queries.approximate_num_entries("counts"))
    assert (error.value.query, error.value.answered) == ("CountQuery", ("KeyQuery",))


def test_a_page_continues_where_a_store_has_passed_over_very_many_rows(coordinator: FakeCoordinator) -> None:
    """Each actor answers once that it has found nothing yet, and how far it has come."""
    passed: set[tuple[int, bytes | None]] = set()

    for actor in coordinator.actors.values():
        answer = actor._answer

        def first_nothing(query: StoreQuery, answer: Callable[[StoreQuery], StoreAnswer] = answer) -> StoreAnswer:
            which = query.task_id.partition, query.after
            if which in passed or len(passed) >= 6:
                return answer(query)
            passed.add(which)
            return StoreAnswer(more=True, reached=b"word-%02d" % len(passed))

        actor._answer = first_nothing  # type: ignore[method-assign]  # of this very one
    page = ask(lambda queries: queries.page("counts", RangeQuery(), 100))
    assert len(passed) == 6
    assert page.entries[-1].key == WORDS[-1]
    assert page.cursor is None


def test_so_many_may_wait_for_a_position_and_no_more(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.queries.queries._MOST_WAITING", 3)
    monkeypatch.setattr("penstock.cluster.queries.queries.LONGEST_WAIT_S", PATIENCE_S)
    for actor in coordinator.actors.values():
        actor.failure = QueryFailure.NOT_UP_TO_BOUND

    async def crowd(queries: StateQueries) -> None:
        bound = PositionBound.at(Position.from_map({"in": {0: 7}}))
        asking = [
            asyncio.create_task(queries.find_row("counts", KeyQuery("a"), Reading(bound=bound, wait_s=PATIENCE_S)))
            for _ in range(10)
        ]
        async with asyncio.timeout(60):
            while sum(each.done() for each in asking) < 7:
                await asyncio.sleep(0)
        refused, waiting = [each for each in asking if each.done()], [each for each in asking if not each.done()]
        assert {type(each.exception()) for each in refused} == {NotUpToBoundError}
        assert len(waiting) == 3
        for actor in coordinator.actors.values():
            actor.failure = None
        assert await asyncio.gather(*waiting) == [None] * 3

    ask(crowd)
