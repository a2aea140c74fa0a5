"""Reading what may lack the newest: the actors that the read side asks, and the time for which it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.actors.store_queries import QueryFailure, StoreAnswer
from penstock.cluster.queries.queries import StateQueries
from penstock.cluster.read_side import Reading
from penstock.common.errors import StateStoreError, TaskNotReadyError
from penstock.common.position import Position, PositionBound
from penstock.state.queries import KeyQuery, RangeQuery
from tests.cluster.fake_actors import WORDS, FakeActor, FakeCoordinator, ask
from tests.cluster.fake_actors import coordinator as coordinator
from tests.waiting import PATIENCE_S

SOON_S = PATIENCE_S
"""Seconds within which the read side does not take an actor for busy: ``active`` sets that limit."""


@pytest.fixture
def active(coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch) -> FakeActor:
    """All tasks are active on ``a``, with standbys on ``b`` and ``c``."""
    monkeypatch.setattr("penstock.cluster.queries.actor_calls.CALL_S", 2 * SOON_S)
    active = coordinator.actors["a"] = FakeActor(*coordinator.tasks)
    coordinator.actors["b"], coordinator.actors["c"] = FakeActor(*coordinator.tasks), FakeActor(*coordinator.tasks)
    coordinator.placement = dict.fromkeys(coordinator.tasks, "a")
    coordinator.standbys = dict.fromkeys(coordinator.tasks, ("b", "c"))
    return active


def stands_still(actor: FakeActor) -> None:
    actor.held = []


def read(queries: StateQueries, reading: Reading) -> Any:
    return asyncio.wait_for(queries.find_row("counts", KeyQuery(WORDS[3]), reading), SOON_S)


def answer(reading: Reading) -> Any:
    return ask(lambda queries: read(queries, reading))


def test_an_active_task_that_answers_is_the_only_one_that_is_asked(
    coordinator: FakeCoordinator, active: FakeActor
) -> None:
    reading = Reading(stale=True)
    assert answer(reading).value == 7
    assert not reading.was_stale
    assert not coordinator.actors["b"].calls + coordinator.actors["c"].calls


def test_for_an_actor_that_is_unresponsive_a_standby_answers_soon(
    coordinator: FakeCoordinator, active: FakeActor
) -> None:
    stands_still(active)
    reading = Reading(stale=True)
    assert answer(reading).value == 7
    assert reading.was_stale
    assert not coordinator.actors["c"].calls, "one standby is enough"


def test_so_it_is_when_a_standby_is_unresponsive_as_well(coordinator: FakeCoordinator, active: FakeActor) -> None:
    stands_still(active)
    stands_still(coordinator.actors["b"])
    reading = Reading(stale=True)
    assert answer(reading).value == 7
    assert reading.was_stale


def test_an_active_task_that_answers_late_but_first_counts(coordinator: FakeCoordinator, active: FakeActor) -> None:
    stands_still(active)
    stands_still(coordinator.actors["b"])
    stands_still(coordinator.actors["c"])
    reading = Reading(stale=True)

    async def late(queries: StateQueries) -> Any:
        asking = asyncio.ensure_future(read(queries, reading))
        async with asyncio.timeout(SOON_S):
            while not coordinator.actors["c"].calls:
                await asyncio.sleep(0)
        assert active.held
        active.held[0].set_result([StoreAnswer()])
        return await asking

    assert ask(late) is None
    assert not reading.was_stale


def test_of_an_actor_that_is_known_to_be_unresponsive_the_standby_is_asked_at_once(
    coordinator: FakeCoordinator, active: FakeActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.queries.actor_calls.CALL_S", 0.05)

    async def again(queries: StateQueries) -> None:
        stands_still(active)
        with pytest.raises(TaskNotReadyError, match="has not answered"):
            await read(queries, Reading())
        monkeypatch.setattr("penstock.cluster.queries.actor_calls.CALL_S", 2 * SOON_S)  # of the standby
        monkeypatch.setattr("penstock.cluster.queries.stale_answers.PATIENCE_S", 2 * SOON_S)
        assert (await read(queries, Reading(stale=True))).value == 7

    ask(again)


@pytest.mark.parametrize("failure", [QueryFailure.BUSY, QueryFailure.NOT_ACTIVE])
def test_so_it_is_of_one_that_is_busy_or_restores(
    coordinator: FakeCoordinator, active: FakeActor, failure: QueryFailure
) -> None:
    active.failure = failure
    reading = Reading(stale=True)
    assert answer(reading).value == 7
    assert reading.was_stale
    assert coordinator.actors["b"].calls


def test_without_an_answer_of_a_standby_a_restoring_task_gives_the_value_that_it_has(
    coordinator: FakeCoordinator, active: FakeActor
) -> None:
    active.failure = QueryFailure.NOT_ACTIVE
    coordinator.actors["b"].dead = True
    coordinator.actors["c"].tasks.clear()
    reading = Reading(stale=True)
    assert answer(reading).value == 7
    assert reading.was_stale


def test_if_all_are_unresponsive_the_active_task_is_reported_as_busy(
    coordinator: FakeCoordinator, active: FakeActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.queries.actor_calls.CALL_S", 0.05)
    for actor in coordinator.actors.values():
        stands_still(actor)
    with pytest.raises(TaskNotReadyError, match="actor a has not answered"):
        answer(Reading(stale=True))


def test_a_store_that_cannot_be_read_is_an_error_even_if_standbys_have_an_answer(
    coordinator: FakeCoordinator, active: FakeActor
) -> None:
    active.failure = QueryFailure.STORE_EXCEPTION
    with pytest.raises(StateStoreError, match="no good"):
        answer(Reading(stale=True))
    assert not coordinator.actors["b"].calls


@pytest.mark.parametrize(
    "reading", [Reading, lambda: Reading(stale=True, bound=PositionBound.at(Position({"in": {0: 1}})))]
)
def test_a_query_that_takes_no_stale_answer_or_demands_a_position_waits_for_the_active_task_alone(
    coordinator: FakeCoordinator, active: FakeActor, reading: Callable[[], Reading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.queries.actor_calls.CALL_S", 0.05)
    stands_still(active)
    with pytest.raises(TaskNotReadyError, match="has not answered"):
        answer(reading())
    assert not coordinator.actors["b"].calls


def test_a_range_goes_past_an_actor_that_is_unresponsive(coordinator: FakeCoordinator, active: FakeActor) -> None:
    stands_still(active)
    reading = Reading(stale=True)
    page = ask(lambda queries: queries.page("counts", RangeQuery(None, None), 100, None, reading))
    assert [entry.key for entry in page.entries] == WORDS
    assert reading.was_stale
