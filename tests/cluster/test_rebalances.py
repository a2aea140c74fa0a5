"""The dispatcher while the group hands out its partitions again. No Ray, no group; the clock is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from structlog.testing import capture_logs

from penstock.actors.orders import Order, Suspend
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.suspending import SUSPEND_S
from penstock.cluster.events import Event, GroupAssigned, GroupRebalances
from penstock.common.log import logger
from tests.cluster.test_scaling_watch import Application, Environment, Handle
from tests.cluster.virtual_time import run


class Silent(Handle):
    """An actor that waits for a broker with its last commit."""

    async def insist(self, order: Order) -> bool:
        if isinstance(order, Suspend):
            await asyncio.sleep(1_000_000)
        return await self.tell(order)


class WithSilent(Environment):
    def __init__(self) -> None:
        self.made: list[Handle] = []

    def create_actor(self, actor_id: str, generation: int, node: str, avoid: frozenset[str]) -> Handle:
        self.made.append(Silent(actor_id))
        return self.made[-1]


def fed(dispatcher: Dispatcher) -> list[Event]:
    """All that the machine hears from now on."""
    heard: list[Event] = []
    handle = dispatcher.machine.handle

    def hear(event: Event) -> list[Any]:
        heard.append(event)
        return handle(event)

    dispatcher.machine.handle = hear  # type: ignore[method-assign]  # the test listens
    return heard


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(story())


def test_the_machine_hears_of_a_rebalance_before_what_comes_of_it() -> None:
    async def story() -> None:
        app = Application()
        await app.begin(2)
        heard, loop = fed(app.dispatcher), asyncio.get_running_loop()

        def as_static_member() -> None:
            done = app.dispatcher.suspend_soon()
            loop.call_soon_threadsafe(app.dispatcher.feed, GroupAssigned(frozenset()))
            done.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))

        ended = asyncio.Event()
        await asyncio.to_thread(as_static_member)
        await ended.wait()
        assert [type(event) for event in heard[:2]] == [GroupRebalances, GroupAssigned]

    asyncio.run(story())


def test_no_actor_is_ended_that_cannot_commit_before_a_rebalance() -> None:
    async def story() -> None:
        app = Application()
        environment = WithSilent()
        app.dispatcher._environment = environment
        app.dispatcher._log = logger(__name__)
        await app.begin(2)
        loop = asyncio.get_running_loop()
        before = loop.time()
        with capture_logs() as logged:
            await app.dispatcher.suspend()
        assert loop.time() - before == SUSPEND_S
        warned = [line["actor"] for line in logged if line["event"] == "actor has not committed before the rebalance"]
        assert sorted(warned) == ["stream/1", "stream/2"]
        await asyncio.sleep(10 * 120.0)
        assert not any(handle.stopped.is_set() for handle in environment.made)
        assert len(app.machine.actors) == 2

    play(story)
