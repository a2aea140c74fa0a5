"""At least once, the coordinator waits before it gives away the tasks of an actor that may live."""

from __future__ import annotations

import asyncio

import pytest

from penstock.actors.loop.lease import LONGEST_S, Lease
from penstock.cluster.environment import NodeAnswer
from penstock.cluster.events import (
    ActorFailed,
    ActorFenced,
    ActorLost,
    ActorRecovered,
    ActorReported,
    ActorsUnaccounted,
    ActorUp,
    AssignTasks,
    ClusterResized,
    FenceActor,
    GroupAssigned,
)
from penstock.cluster.status import ApplicationState
from penstock.cluster.watchers.leases import MARGIN_S, ORPHANED_S, Leases, wait_until_lease_ends
from penstock.common.handlers import UncaughtExceptionResponse
from tests.cluster.coordinator_play import ALL, TASKS, Play, epoch_of
from tests.cluster.virtual_time import run


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_it_counts_from_the_last_answer() -> None:
    clock = Clock()
    leases = Leases(clock, incarnation=1)
    leases.started("stream/1")
    clock.now_s = 110.0
    question_id = leases.question_id("stream/1")
    clock.now_s = 111.0
    leases.answered("stream/1", question_id)
    clock.now_s = 120.0
    leases.question_id("stream/1")
    assert leases.give_up("stream/1") == pytest.approx(LONGEST_S + MARGIN_S - 9)


def test_a_coordinator_that_restarts_with_an_earlier_wall_clock_goes_above_the_one_before() -> None:
    clock = Clock()
    lease, before, after = Lease(clock), Leases(clock, incarnation=2_000), Leases(clock, incarnation=1_000)
    lease.begin(LONGEST_S)
    lease.question_arrived(before.question_id("stream/1"))
    after.go_above(lease.incarnation)
    for _ in range(100):
        clock.now_s += 1.0
        question_id = after.question_id("stream/1")
        lease.question_arrived(question_id)
        after.answered("stream/1", question_id)
    assert not lease.is_over


def test_an_actor_that_has_been_silent_for_longer_than_its_lease_is_not_waited_for() -> None:
    clock = Clock()
    leases = Leases(clock, incarnation=1)
    leases.started("stream/1")
    clock.now_s += 45.0
    assert leases.give_up("stream/1") == 0.0


@pytest.mark.parametrize(
    ("answers", "took_s"),
    [
        ([NodeAnswer.REFUSES], ORPHANED_S),
        ([NodeAnswer.ANSWERS, NodeAnswer.UNREACHABLE, NodeAnswer.GONE, NodeAnswer.ENDED], 3 + ORPHANED_S),
        ([NodeAnswer.GONE], 20.0),
        ([NodeAnswer.UNREACHABLE], 20.0),
    ],
)
def test_an_actor_whose_raylet_has_ended_knows_it_as_soon_as_the_coordinator(
    answers: list[NodeAnswer], took_s: float
) -> None:
    async def node(name: str) -> NodeAnswer:
        assert name == "node"
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def story() -> float:
        begun_s = asyncio.get_running_loop().time()
        waited_s = await wait_until_lease_ends(FenceActor("stream/1", 1, 20.0, "node"), node)
        assert waited_s == asyncio.get_running_loop().time() - begun_s
        return waited_s

    assert run(story()) == pytest.approx(took_s)


def test_questions_and_answers_that_arrive_after_an_actor_is_given_up_do_not_extend_its_lease() -> None:
    clock = Clock()
    leases, lease = Leases(clock, incarnation=1), Lease(clock)
    lease.begin(LONGEST_S)
    leases.started("stream/1")
    first = leases.question_id("stream/1")
    lease.question_arrived(first)
    clock.now_s = 125.0
    second = leases.question_id("stream/1")
    lease.question_arrived(second)
    left_s = leases.give_up("stream/1")
    leases.answered("stream/1", second)
    lease.question_arrived(leases.question_id("stream/1"))
    clock.now_s += left_s
    assert lease.is_over


def test_at_least_once_the_tasks_of_a_lost_actor_wait_until_it_can_write_nothing() -> None:
    play = Play()
    play.running()
    play(ActorLost("stream/1", may_write_s=17.0))
    assert play.of(FenceActor) == [FenceActor("stream/1", 1, 17.0)]
    assert play.of(AssignTasks) == []
    waiting = TASKS - play.machine.placement.keys()
    assert waiting
    assert set(play.machine.unhosted.values()) == {
        "stream/1 is lost, and must be fenced before another actor continues"
    }
    play(ActorUp("stream/3"), ActorFenced("stream/1"))
    given = {task for order in play.of(AssignTasks) for task in order.tasks}
    assert given >= waiting


@pytest.mark.parametrize(("may_write_s", "waits"), [(17.0, [17.0]), (0.0, [])])
def test_at_least_once_the_tasks_of_a_failed_actor_wait_unless_its_loop_has_ended(
    may_write_s: float, waits: list[float]
) -> None:
    play = Play()
    play.running()
    play(ActorFailed("stream/1", "a call failed", UncaughtExceptionResponse.REPLACE_ACTOR, may_write_s=may_write_s))
    assert [fence.may_write_s for fence in play.of(FenceActor)] == waits


@pytest.mark.parametrize("response", UncaughtExceptionResponse)
def test_an_actor_that_reports_an_error_after_it_was_given_up_ends_neither_the_application_nor_the_wait(
    response: UncaughtExceptionResponse,
) -> None:
    play = Play()
    play.running()
    play(ActorLost("stream/1", may_write_s=17.0))
    waiting = play.machine.unhosted
    assert waiting
    assert play(ActorFailed("stream/1", "ValueError: bad", response)) == []
    assert play.machine.state is ApplicationState.REBALANCING
    assert play.machine.error is None
    assert play.machine.unhosted == waiting
    play(ActorUp("stream/3"), ActorFenced("stream/1"))
    assert {task for order in play.of(AssignTasks) for task in order.tasks} >= waiting.keys()


def test_at_least_once_the_tasks_of_an_actor_whose_process_has_ended_do_not_wait() -> None:
    play = Play()
    play.running()
    play(ActorLost("stream/1"))
    assert play.of(FenceActor) == []


def test_after_a_restart_tasks_that_no_actor_claims_wait() -> None:
    claimed, *_ = sorted(TASKS)
    play = Play()
    recovered = ActorRecovered("stream/4", 5, frozenset({claimed}), False, 1, "node", frozenset(), {}, 1)
    play(recovered, ActorsUnaccounted(32.0), ClusterResized(1), GroupAssigned(ALL))
    (fence,) = play.of(FenceActor)
    assert fence.may_write_s == 32.0
    play.confirm()
    play(ActorReported("stream/4", frozenset({claimed}), epoch_of(play, "stream/4")))
    assert play.machine.placement == {claimed: "stream/4"}
    play(ActorFenced(fence.actor_id))
    assert play.machine.placement.keys() == TASKS


def test_after_a_restart_nothing_waits_if_every_task_is_claimed() -> None:
    play = Play()
    recovered = ActorRecovered("stream/4", 5, TASKS, False, 1, "node", frozenset(), {}, 1)
    play(recovered, ActorsUnaccounted(32.0))
    assert play.of(FenceActor) == []
