"""A simulated application, and all that can happen to it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from penstock.cluster.events import (
    ActorsWanted,
    Deploy,
    GroupAssigned,
    MoveTaskRequested,
    RestartActorRequested,
    StopRequested,
)
from penstock.common.handlers import UncaughtExceptionResponse
from tests.cluster.simulated_actor import SimulatedActor
from tests.cluster.simulated_application import SimulatedApplication


class World(SimulatedApplication):
    """Faults and changes of one application on one cluster."""

    def lose_an_actor(self) -> None:
        living = [actor for actor in self.actors.values() if actor.alive]
        if living:
            self.rng.choice(living).kill()

    def lose_a_node(self) -> None:
        node = self.rng.choice(self.nodes)
        for actor in list(self.actors.values()):
            if actor.alive and actor.node == node:
                actor.kill()

    def fail_an_actor(self) -> None:
        """Lets an actor fail by an error of its program; the handler wants another in its place."""
        working = [actor for actor in self.actors.values() if actor.alive and actor.up]
        if working:
            self.rng.choice(working).fail(UncaughtExceptionResponse.REPLACE_ACTOR)

    def pause_or_resume(self) -> None:
        """Pauses or resumes the application, without waiting for the answer."""
        if (dispatcher := self.dispatcher) is not None:
            self.spawn(self.pausing.become(self.rng.random() < 0.5, lambda: dispatcher.up))

    def deploy(self, bad: bool | None = None) -> None:
        """Deploys a new version of the program."""
        if self.dispatcher is not None:
            generation = self.rollout.last + 1
            if self.rng.random() < 0.3 if bad is None else bad:
                self.bad.add(generation)
            self.dispatcher.feed(Deploy(generation, self.rng.choice([20.0, 60.0])))

    def resize(self, cpus: int | None = None) -> None:
        self.cpus = self.rng.randint(0, 6) if cpus is None else cpus
        self._tell_cpus()

    def want(self, count: int | None = None) -> None:
        """Adds actors, or takes some away."""
        self.wanted = self.rng.randint(1, 7) if count is None else count
        if self.dispatcher is not None:
            self.dispatcher.feed(ActorsWanted(self.wanted))

    def move_a_task(self) -> None:
        """A user wants a task on another actor, most of the time one that can take it."""
        if (dispatcher := self.dispatcher) is not None:
            machine = dispatcher.machine
            tasks, actors = sorted(machine.plan.partitions), [*machine.actors, "stream/999"]
            task, to = self.rng.choice(tasks), self.rng.choice(actors)
            accepted = machine.user_requests.refusal_of_move(task, to) is None
            dispatcher.feed(MoveTaskRequested(task, to))
            assert machine.is_wished(task, to) or not accepted, "a wish that was not refused is not there"
            self.moves_wanted += accepted

    def restart_an_actor(self) -> None:
        """A user wants another actor in the place of one."""
        if (dispatcher := self.dispatcher) is not None and dispatcher.machine.actors:
            machine, name = dispatcher.machine, self.rng.choice(dispatcher.machine.actors)
            if machine.user_requests.refusal_of_restart(name) is None:
                self.restarted_actors.add(self.actors[name])
            dispatcher.feed(RestartActorRequested(name))

    def drain(self, seconds: float | None = None) -> None:
        """Announces that a node will be gone; another comes in its place."""
        node = self.rng.choice(self.nodes)
        if node in self.draining:
            return
        self.nodes.append(f"node {int(self.nodes[-1].removeprefix('node ')) + 1}")
        left_s = self.rng.choice([math.inf, self.rng.uniform(0, 60)]) if seconds is None else seconds
        self.draining[node] = asyncio.get_running_loop().time() + left_s
        self.spawn(self._gone_later(node))

    async def _gone_later(self, node: str) -> None:
        def there() -> list[SimulatedActor]:
            return [actor for actor in self.actors.values() if actor.alive and actor.node == node]

        await self.pause()
        while asyncio.get_running_loop().time() < self.draining[node] and (there() or self.draining[node] < math.inf):
            if self.rng.random() < 0.01 and not self.calm:  # it is called off
                del self.draining[node]
                return
            await asyncio.sleep(1.0)
        self.nodes.remove(node)
        del self.draining[node]
        for actor in there():
            self.cut_short += 1
            actor.kill()

    def regroup(self, share: float | None = None) -> None:
        self.share = self.rng.random() if share is None else share
        self.rebalances += 1
        self.spawn(self._rebalance())

    async def _rebalance(self) -> None:
        """Rebalances as the group does: it waits a while for the last commits, then hands out the partitions."""
        dispatcher = self.dispatcher
        if dispatcher is not None:
            await dispatcher.suspend()
        self.assigned = frozenset(p for p in sorted(self.plan.reads) if self.rng.random() < self.share)
        self._tell_group()
        self.rebalances -= 1

    def lose_session(self) -> None:
        """Loses the session: the group gives nothing until the member, or that of the next coordinator, has joined."""
        if self.dispatcher is not None:
            self.assigned_told = frozenset()
            self.lost_epoch = self.dispatcher.machine.epoch
            self.dispatcher.feed(GroupAssigned(None))
            self.spawn(self._tell_group_later())

    def grow(self) -> None:
        """Adds a partition to a source topic; the group gives it to this application."""
        topics = self.rng.choice([self.counts, self.beside])
        topic = self.rng.choice(sorted(topics))
        if topics[topic] < 7:
            before = self.plan.reads
            topics[topic] += 1
            self.assigned |= self.plan.reads - before
            self.spawn(self._tell_group_later())

    def restart(self) -> None:
        self.end_coordinator()
        self.spawn(self.start_coordinator())

    def broker_outage(self) -> None:
        self.broker_away = not self.broker_away

    def request_stop(self) -> None:
        if self.dispatcher is not None:
            self.dispatcher.feed(StopRequested())

    async def _tell_group_later(self) -> None:
        """Feeds the group's assignment later: topics are seen to grow before the group assigns the new partitions."""
        await self.pause()
        self._tell_group()

    # ---- quiet ----

    async def settle(self, condition: Callable[[], bool], what: str, limit_s: float = 600.0) -> None:
        """Ends all faults and waits until ``condition`` holds."""
        self.calm, self.broker_away = True, False
        await self.until(condition, what, limit_s)

    async def until(self, condition: Callable[[], bool], what: str, limit_s: float = 600.0) -> None:
        """Wait until ``condition`` holds."""
        deadline = asyncio.get_running_loop().time() + limit_s
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, f"never: {what}"
            await self.let_pass(0.25)

    async def let_pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.violation is not None:
            raise self.violation
