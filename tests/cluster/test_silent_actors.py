"""Actors that are silent, busy, or lost with their node, over a real machine and dispatcher without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from typing_extensions import override

from penstock.actors.loop.lease import QuestionId
from penstock.actors.process.process_lost import PROCESS_LOST_S
from penstock.actors.status import ActorStatus
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.periodic_work import CHECK_ACTORS_S
from penstock.cluster.environment import NodeAnswer
from penstock.cluster.status import ApplicationState
from penstock.cluster.watchers.silence import (
    BUSY_AFTER_S,
    HUNG_S,
    REFUSED_FENCED_S,
    REFUSED_S,
    SHOWN_AFTER_S,
    UNREACHABLE_AFTER_S,
    Silence,
)
from tests.cluster.restarted_coordinator import LivingActor, Restarted
from tests.cluster.restarted_coordinator import restarted as restarted
from tests.cluster.test_scaling_watch import Application, Environment, Handle
from tests.cluster.virtual_time import run

BUSY = "a function of the program has been processing one record for long; the actor is replaced after 300 s"
STANDS_STILL = "its process is unresponsive; the actor is replaced after 45 s"


class Nodes(Environment):
    """Each actor has a node of its own, named like the actor; ``states`` has each state, with its time."""

    def __init__(self) -> None:
        self.answers: dict[str, NodeAnswer] = {}
        self.states: list[tuple[ApplicationState, float]] = []
        self.fences: list[float] = []
        self.handles: dict[str, Mute] = {}

    def create_actor(self, actor_id: str, generation: int, node: str, avoid: frozenset[str]) -> Handle:
        self.handles[actor_id] = Mute(actor_id)
        return self.handles[actor_id]

    async def node(self, node_id: str) -> NodeAnswer:
        return self.answers.get(node_id, NodeAnswer.ANSWERS)

    async def fence(self, slot: int) -> None:
        self.fences.append(asyncio.get_running_loop().time())

    def entered(self, state: ApplicationState, error: str | None) -> None:
        self.states.append((state, asyncio.get_running_loop().time()))


class Mute(Handle):
    """An actor whose process may stop, or whose thread alone may be busy."""

    frozen = busy = killed = dead = False

    async def start(self, slot: int) -> str:
        return self.actor_id

    async def status(self, question_id: QuestionId) -> ActorStatus | None:
        if self.dead:
            return None
        if self.frozen or self.busy:
            await asyncio.sleep(10)
            return None
        message = await super().status(question_id)
        assert message is not None
        return replace(message, node_id=self.actor_id)

    async def heartbeat(self, question_id: QuestionId) -> bool:
        if self.frozen:
            await asyncio.sleep(5)
        return not self.frozen and not self.dead

    def kill(self) -> None:
        self.killed = True
        super().kill()


class OnNodes(Application):
    """``nodes``: its environment."""

    @override
    def _environment(self) -> Environment:
        self.nodes = Nodes()
        return self.nodes


class Watched:
    """An application whose actors are looked at as often as the coordinator does; virtual time."""

    def __init__(self, guarantee: str) -> None:
        entries: Any = {"processing.guarantee": guarantee}
        self.app = OnNodes(**entries)
        self.nodes = self.app.nodes

    def actor(self, number: int) -> Mute:
        return self.nodes.handles[f"stream/{number}"]

    async def until(self, condition: Callable[[], object], limit_s: float = 400.0) -> float:
        """Returns the seconds that it takes until ``condition`` holds."""
        began_s = now_s = asyncio.get_running_loop().time()
        while not condition():
            await self.app.dispatcher.check_actors()
            await asyncio.sleep(CHECK_ACTORS_S)
            now_s = asyncio.get_running_loop().time()
            assert now_s - began_s < limit_s, "it did not come"
        return now_s - began_s

    async def for_s(self, seconds: float) -> None:
        end_s = asyncio.get_running_loop().time() + seconds
        await self.until(lambda: asyncio.get_running_loop().time() >= end_s, seconds + 5)


def watched(
    story: Callable[[Watched], Coroutine[Any, Any, None]], guarantee: str = "exactly_once_v2", actors: int = 2
) -> None:
    async def play() -> None:
        it = Watched(guarantee)
        await it.app.begin(actors)
        await story(it)
        it.app.dispatcher.close()

    run(play())


def test_a_frozen_process_shows_in_the_state_within_five_seconds_and_keeps_its_tasks_for_45() -> None:
    async def story(it: Watched) -> None:
        machine = it.app.machine
        it.actor(1).frozen = True
        took_s = await it.until(lambda: machine.silent)
        assert took_s <= 5
        assert machine.silent == {"stream/1"}
        assert machine.state is ApplicationState.REBALANCING
        assert STANDS_STILL in (it.app.dispatcher.silent or "")
        assert PROCESS_LOST_S <= took_s + await it.until(lambda: it.actor(1).killed) < PROCESS_LOST_S + 10

    watched(story)


def test_a_process_that_continues_within_its_time_shows_as_running_again_and_moves_no_task() -> None:
    async def story(it: Watched) -> None:
        machine = it.app.machine
        before = machine.placement
        it.actor(1).frozen = True
        await it.until(lambda: machine.state is ApplicationState.REBALANCING)
        it.actor(1).frozen = False
        await it.until(lambda: machine.state is ApplicationState.RUNNING, 12)
        assert machine.placement == before
        assert not machine.silent
        assert it.app.dispatcher.silent is None

    watched(story)


def test_an_actor_whose_thread_alone_is_busy_is_not_silent_but_named_after_30_s() -> None:
    async def story(it: Watched) -> None:
        it.actor(1).busy = True
        took_s = await it.until(lambda: it.app.dispatcher.silent)
        assert BUSY_AFTER_S <= took_s < BUSY_AFTER_S + 3
        message = it.app.dispatcher.silent or ""
        mine = ", ".join(str(task) for task in sorted(it.actor(1).tasks))
        assert message.startswith("stream/1 has not answered for 3")
        assert f"(its tasks: {mine}): {BUSY}" in message
        assert it.app.machine.state is ApplicationState.RUNNING
        assert HUNG_S <= took_s + await it.until(lambda: it.actor(1).killed) < HUNG_S + 15

    watched(story)


def test_one_frozen_actor_does_not_delay_the_reports_of_others() -> None:
    async def story(it: Watched) -> None:
        it.actor(1).frozen = True
        heard: list[float] = []
        loop, status = asyncio.get_running_loop(), it.actor(2).status

        async def counted(question_id: QuestionId) -> ActorStatus | None:
            heard.append(loop.time())
            return await status(question_id)

        it.actor(2).status = counted  # type: ignore[method-assign]
        await it.for_s(20)
        gaps = [later - earlier for earlier, later in pairwise(heard)]
        assert max(gaps) <= 1.5

    watched(story)


@pytest.mark.parametrize(
    ("guarantee", "node", "within_s"),
    [
        ("exactly_once_v2", NodeAnswer.REFUSES, 2.0),
        ("at_least_once", NodeAnswer.REFUSES, 4.0),  # a firewall may refuse, and nothing would fence the actor
        ("at_least_once", NodeAnswer.ENDED, 2.0),
    ],
)
def test_an_actor_whose_node_is_gone_is_lost_within_seconds_and_fenced_at_once(
    guarantee: str, node: NodeAnswer, within_s: float
) -> None:
    async def story(it: Watched) -> None:
        lost_s = asyncio.get_running_loop().time()
        it.actor(1).dead, it.nodes.answers["stream/1"] = True, node
        assert await it.until(lambda: it.actor(1).killed) <= within_s
        await it.until(lambda: it.app.machine.state is ApplicationState.RUNNING, 15)
        fences = [at_s - lost_s for at_s in it.nodes.fences]
        assert len(fences) == (guarantee == "exactly_once_v2")
        assert all(after_s < 2 for after_s in fences)

    watched(story, guarantee)


def test_a_firewall_that_refuses_for_two_seconds_ends_no_actor_that_nothing_would_fence() -> None:
    async def story(it: Watched) -> None:
        it.actor(1).frozen, it.nodes.answers["stream/1"] = True, NodeAnswer.REFUSES
        await it.for_s(2)
        it.actor(1).frozen = False
        del it.nodes.answers["stream/1"]
        await it.for_s(20)
        assert not it.actor(1).killed

    watched(story, "at_least_once")


def test_a_process_that_lives_on_although_its_raylet_has_ended_is_not_lost() -> None:
    async def story(it: Watched) -> None:
        it.nodes.answers["stream/1"] = NodeAnswer.REFUSES
        await it.for_s(20)
        it.actor(1).busy = True
        await it.for_s(20)
        assert not it.actor(1).killed

    watched(story)


@pytest.mark.parametrize(
    ("guarantee", "unreachable", "lost"),
    [
        ("exactly_once_v2", [1], True),
        ("exactly_once_v2", [1, 2, 3], False),  # the coordinator itself is cut off
        ("at_least_once", [1], False),  # nothing keeps an actor that lives there from writing
    ],
)
def test_a_node_that_cannot_be_reached_is_lost_if_its_actors_are_fenced_and_other_nodes_answer(
    guarantee: str, unreachable: list[int], lost: bool
) -> None:
    async def story(it: Watched) -> None:
        for number in unreachable:
            it.actor(number).frozen = True
            it.nodes.answers[f"stream/{number}"] = NodeAnswer.UNREACHABLE
        if lost:
            took_s = await it.until(lambda: it.actor(1).killed)
            assert UNREACHABLE_AFTER_S <= took_s <= UNREACHABLE_AFTER_S + 3
        else:
            await it.for_s(30)
        assert [number for number in (1, 2, 3) if it.actor(number).killed] == ([1] if lost else [])

    watched(story, guarantee, actors=3)


def test_one_refused_connection_alone_ends_no_actor() -> None:
    clock = [0.0]
    silence = Silence(lambda: clock[0], fenced=True)
    silence.status_received("stream/1")
    assert silence.continues("stream/1", heartbeat=False, node=NodeAnswer.REFUSES) is None
    clock[0] += 2 * REFUSED_FENCED_S
    assert silence.continues("stream/1", heartbeat=True) is None
    assert silence.continues("stream/1", heartbeat=False, node=NodeAnswer.REFUSES) is None
    clock[0] += 2 * REFUSED_FENCED_S
    assert silence.continues("stream/1", heartbeat=False, node=NodeAnswer.ANSWERS) is None
    assert silence.continues("stream/1", heartbeat=False, node=NodeAnswer.REFUSES) is None
    clock[0] += 2 * REFUSED_FENCED_S
    assert silence.continues("stream/1", heartbeat=False, node=NodeAnswer.REFUSES) is not None


def test_refusals_are_believed_later_if_nothing_fences_the_actor() -> None:
    clock = [0.0]
    silence = Silence(lambda: clock[0], fenced=False)
    silence.status_received("stream/1")
    assert silence.continues("stream/1", heartbeat=False, node=NodeAnswer.REFUSES) is None
    clock[0] += REFUSED_S
    assert silence.continues("stream/1", heartbeat=False, node=NodeAnswer.REFUSES) is None, "it was heard lately"
    clock[0] = SHOWN_AFTER_S
    assert silence.continues("stream/1", heartbeat=False, node=NodeAnswer.REFUSES) is not None


def test_a_coordinator_that_was_unresponsive_itself_blames_no_actor() -> None:
    clock = [0.0]
    silence = Silence(lambda: clock[0], fenced=True)
    silence.status_received("stream/1")
    clock[0] += 10 * PROCESS_LOST_S
    assert silence.continues("stream/1", heartbeat=False) is None
    assert not silence.is_silent("stream/1")
    woke_s = clock[0]
    while silence.continues("stream/1", heartbeat=False) is None:
        clock[0] += 1
    assert clock[0] - woke_s > PROCESS_LOST_S


def test_the_status_names_the_silent_actor_as_the_reason_that_the_application_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        await coordinator._beginning
        assert (await coordinator.status()).waiting is None
        message = "stream/1 has not answered for 40 s"
        monkeypatch.setattr(Dispatcher, "silent", property(lambda _: message))
        assert (await coordinator.status()).waiting == message
        await coordinator.stop()

    run(story())


def test_the_time_since_an_actor_gave_its_status_is_known() -> None:
    now = 100.0
    silence = Silence(lambda: now, fenced=False)
    silence.status_received("stream/1")
    silence.status_received("stream/2")
    now = 103.0
    silence.continues("stream/1", heartbeat=True)
    silence.status_received("stream/2")
    assert silence.report_ages_s() == {"stream/1": 3.0, "stream/2": 0.0}
    silence.forget_all_but(["stream/2"])
    assert silence.report_ages_s() == {"stream/2": 0.0}
