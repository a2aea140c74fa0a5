"""The read side: routing, batching, refreshing, paging; actors are stand-ins, no Ray runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ray.exceptions import ActorUnavailableError, OutOfMemoryError

from penstock.actors.store_queries import QueryFailure, StoreAnswer
from penstock.cluster.queries.queries import StateQueries
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.errors import (
    ApplicationStateError,
    StateStoreError,
    TaskNotReadyError,
    UnknownStateStoreError,
)
from penstock.state.queries import KeyQuery, KeysQuery, RangeQuery
from tests.cluster.fake_actors import WORDS, FakeActor, FakeCoordinator, ask
from tests.cluster.fake_actors import coordinator as coordinator


def test_every_key_is_found_where_murmur2_puts_it(coordinator: FakeCoordinator) -> None:
    async def all_words(queries: StateQueries) -> list[Any]:
        return [await queries.find_row("counts", KeyQuery(word)) for word in WORDS]

    entries = ask(all_words)
    assert [(entry.key, entry.value, entry.timestamp) for entry in entries] == [(word, 7, 7) for word in WORDS]
    assert ask(lambda queries: queries.find_row("counts", KeyQuery("absent"))) is None


def test_many_keys_are_looked_up_by_one_call_to_each_actor(coordinator: FakeCoordinator) -> None:
    asked = ["absent", *reversed(WORDS), WORDS[3], "nor this"]

    async def all_at_once(queries: StateQueries) -> list[Any]:
        return await queries.get_many("counts", asked)

    entries = ask(all_at_once)
    assert [entry and (entry.key, entry.value, entry.timestamp) for entry in entries] == [
        (word, 7, 7) if word in WORDS else None for word in asked
    ]
    for actor in coordinator.actors.values():
        assert len(actor.calls) == 1


def test_many_large_rows_are_asked_for_until_all_are_there(coordinator: FakeCoordinator) -> None:
    for actor in coordinator.actors.values():
        actor.cut_at = 2
    entries = ask(lambda queries: queries.get_many("counts", WORDS))
    assert [entry.key for entry in entries] == WORDS


def test_more_keys_than_a_task_reads_at_once_are_cut_into_several_questions(coordinator: FakeCoordinator) -> None:
    keys = [f"{number:05}" for number in range(4000)]
    for actor in coordinator.actors.values():
        actor.keys = [key.encode() for key in keys]
    assert [entry.key for entry in ask(lambda queries: queries.get_many("counts", keys))] == keys
    asked = [query.query for actor in coordinator.actors.values() for call in actor.calls for query in call]
    assert max(len(query.keys) for query in asked if isinstance(query, KeysQuery)) == 500


def test_no_keys_are_no_question(coordinator: FakeCoordinator) -> None:
    assert ask(lambda queries: queries.get_many("counts", [])) == []


def test_lookups_that_wait_for_the_same_actor_travel_in_one_call(coordinator: FakeCoordinator) -> None:
    async def together(queries: StateQueries) -> None:
        await queries.find_row("counts", KeyQuery(WORDS[0]))
        for actor in coordinator.actors.values():
            actor.calls.clear()
        await asyncio.gather(*(queries.find_row("counts", KeyQuery(word)) for word in WORDS * 20))

    ask(together)
    for actor in coordinator.actors.values():
        # The first goes alone or with those of the same moment, all the others go with the second.
        assert len(actor.calls) <= 2
    assert sum(len(call) for actor in coordinator.actors.values() for call in actor.calls) == len(WORDS) * 20


def test_a_moved_task_is_found_again_with_one_question_to_the_coordinator(coordinator: FakeCoordinator) -> None:
    async def move_between(queries: StateQueries) -> None:
        await queries.approximate_num_entries("counts")
        coordinator.actors["c"] = FakeActor(*coordinator.tasks)
        coordinator.placement = dict.fromkeys(coordinator.tasks, "c")
        coordinator.actors["a"].tasks.clear()
        coordinator.actors["b"].dead = True
        before = coordinator.asked
        assert await queries.approximate_num_entries("counts") == len(WORDS)
        assert coordinator.asked <= before + 2
        assert (await queries.find_row("counts", KeyQuery(WORDS[3]))) is not None

    ask(move_between)


def test_a_task_that_is_nowhere_or_restores_is_not_ready(coordinator: FakeCoordinator) -> None:
    coordinator.actors["a"].failure = QueryFailure.NOT_ACTIVE
    with pytest.raises(TaskNotReadyError, match="restores its state"):
        ask(lambda queries: queries.approximate_num_entries("counts"))
    coordinator.placement.clear()
    with pytest.raises(TaskNotReadyError, match="moves between actors"):
        ask(lambda queries: queries.find_row("counts", KeyQuery("x")))


@pytest.mark.parametrize("state", [ApplicationState.PENDING_ERROR, ApplicationState.ERROR])
def test_a_task_that_will_never_be_anywhere_again_is_not_asked_for_again_but_reports_the_cause(
    coordinator: FakeCoordinator, state: ApplicationState
) -> None:
    coordinator.actors["a"].ended = coordinator.actors["b"].dead = True
    coordinator.state, coordinator.error = state, "ProcessingError: division by zero"
    for question in (
        lambda queries: queries.find_row("counts", KeyQuery("x")),
        lambda queries: queries.page("counts", RangeQuery(None, None), 10),
        lambda queries: queries.approximate_num_entries("counts"),
    ):
        with pytest.raises(ApplicationStateError, match=f"is in state {state.value}: ProcessingError: division by"):
            ask(question)


def test_a_query_while_the_application_stops_is_refused_with_the_reason(coordinator: FakeCoordinator) -> None:
    coordinator.placement.clear()
    coordinator.state = ApplicationState.PENDING_SHUTDOWN
    with pytest.raises(ApplicationStateError, match="is in state PENDING_SHUTDOWN: it is stopping"):
        ask(lambda queries: queries.find_row("counts", KeyQuery("x")))


def test_an_actor_whose_work_has_ended_means_asking_again_later_or_elsewhere(coordinator: FakeCoordinator) -> None:
    coordinator.actors["a"].ended = coordinator.actors["b"].ended = True
    with pytest.raises(TaskNotReadyError, match="moves between actors"):
        ask(lambda queries: queries.find_row("counts", KeyQuery("x")))

    async def move(queries: StateQueries) -> None:
        with pytest.raises(TaskNotReadyError):
            await queries.find_row("counts", KeyQuery(WORDS[3]))
        coordinator.actors["c"] = FakeActor(*coordinator.tasks)
        coordinator.placement = dict.fromkeys(coordinator.tasks, "c")
        assert (await queries.find_row("counts", KeyQuery(WORDS[3]))) is not None

    ask(move)


def test_a_store_that_cannot_be_read_reports_why(coordinator: FakeCoordinator) -> None:
    coordinator.actors["b"].failure = QueryFailure.STORE_EXCEPTION
    with pytest.raises(StateStoreError, match="no good"):
        ask(lambda queries: queries.approximate_num_entries("counts"))


def test_an_unknown_store_names_the_known_ones_unless_the_application_still_starts(
    coordinator: FakeCoordinator,
) -> None:
    with pytest.raises(UnknownStateStoreError, match="no state store 'count'; its stores: counts"):
        ask(lambda queries: queries.find_row("count", KeyQuery("x")))
    coordinator.state = ApplicationState.CREATED
    with pytest.raises(TaskNotReadyError, match="is starting"):
        ask(lambda queries: queries.find_row("counts", KeyQuery("x")))


def test_a_store_that_a_restarted_coordinator_knows_by_now_is_never_called_unknown(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begins_before_it_reports() -> ApplicationStatus:
        coordinator.state = ApplicationState.RUNNING
        return reported()

    reported = coordinator._status
    monkeypatch.setattr(coordinator, "_status", begins_before_it_reports)
    coordinator.state = ApplicationState.CREATED
    ask(lambda queries: queries.find_row("counts", KeyQuery(WORDS[0])))
    assert coordinator.state is ApplicationState.RUNNING, "the first answers knew no store"


def test_an_application_that_does_not_run_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr("ray.get_actor", missing)
    with pytest.raises(ApplicationStateError, match="'app' does not run"):
        ask(lambda queries: queries.status())


def test_the_coordinator_is_asked_once_while_nothing_moves(coordinator: FakeCoordinator) -> None:
    async def twice(queries: StateQueries) -> None:
        await queries.find_row("counts", KeyQuery("a"))
        before = coordinator.asked
        await queries.find_row("counts", KeyQuery("b"))
        assert coordinator.asked == before

    ask(twice)


@pytest.mark.parametrize(
    "lost",
    [
        OutOfMemoryError("killed by Ray"),  # type: ignore[no-untyped-call]  # untyped in Ray
        ActorUnavailableError("out of reach", b"\0" * 16),
    ],
)
def test_an_actor_that_ray_lost_for_whatever_reason_means_asking_again_later_or_elsewhere(
    coordinator: FakeCoordinator, lost: Exception
) -> None:
    for actor in coordinator.actors.values():
        actor.lost = lost
    with pytest.raises(TaskNotReadyError, match="moves between actors"):
        ask(lambda queries: queries.find_row("counts", KeyQuery("x")))

    async def replaced(queries: StateQueries) -> None:
        with pytest.raises(TaskNotReadyError):
            await queries.find_row("counts", KeyQuery(WORDS[3]))
        coordinator.actors["c"] = FakeActor(*coordinator.tasks)
        coordinator.placement = dict.fromkeys(coordinator.tasks, "c")
        assert (await queries.find_row("counts", KeyQuery(WORDS[3]))) is not None

    ask(replaced)


def test_a_call_that_takes_too_long_is_given_up_but_never_repeated(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator.placement = dict.fromkeys(coordinator.tasks, "c")
    coordinator.actors["c"] = slow = FakeActor(*coordinator.tasks)

    async def late(queries: StateQueries) -> None:
        await queries.find_row("counts", KeyQuery(WORDS[0]))
        monkeypatch.setattr("penstock.cluster.queries.actor_calls.CALL_S", 0.05)
        slow.calls.clear()
        slow.held = []
        for _ in range(5):
            with pytest.raises(TaskNotReadyError, match="has not answered"):
                await queries.find_row("counts", KeyQuery(WORDS[1]))
        assert len(slow.calls) == 1, "the actor still works on the first"
        (first,), slow.held = slow.held, None
        first.set_result([StoreAnswer()])
        answered = None
        while answered is None:
            try:
                answered = await queries.find_row("counts", KeyQuery(WORDS[1]))
            except TaskNotReadyError:
                await asyncio.sleep(0)
        assert answered.value == 7

    ask(late)


def test_so_many_queries_may_wait_for_an_actor_and_no_more(
    coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.queries.actor_calls._MOST_WAITING", 10)

    async def crowd(queries: StateQueries) -> None:
        await queries.find_row("counts", KeyQuery(WORDS[0]))
        found = await asyncio.gather(
            *(queries.find_row("counts", KeyQuery(WORDS[0])) for _ in range(100)), return_exceptions=True
        )
        refused = [error for error in found if isinstance(error, TaskNotReadyError)]
        assert len(found) - len(refused) == 10
        assert "has 10 queries waiting: it is busy" in str(refused[0])

    ask(crowd)


def test_a_busy_actor_is_reported_as_busy(coordinator: FakeCoordinator) -> None:
    coordinator.actors["a"].failure = QueryFailure.BUSY
    with pytest.raises(TaskNotReadyError, match="is busy"):
        ask(lambda queries: queries.page("counts", RangeQuery(None, None), 10))
