"""The process of a stream actor: the production shell and stream loop, stepped in virtual time, and the way to it.

A call takes its time on the way, and so does its answer. A process may be frozen, cut off from Ray, from the broker, or
from both. One that Ray takes for dead while it is cut off works on for a while: a ghost.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.loop.lease import Lease, lease_s
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.orders import Assign
from penstock.actors.process.belonging import Belonging
from penstock.actors.process.process_watch import LOOK_EVERY_S
from penstock.actors.process.stream_actor import _LOOK_AT_LEASE_EACH_S, StreamActor
from penstock.actors.spec import ApplicationSpec
from penstock.common.errors import StreamsError
from tests.cluster.simulated_application import QUIET
from tests.simulation.simulated_calls import SimulatedCalls
from tests.simulation.simulated_kafka import SimulatedClients
from tests.simulation.simulated_ray import RemoteCoordinator

if TYPE_CHECKING:
    from tests.simulation.world import Cluster

_LOOK_S = 1.0
"""A frozen process that is thawed early wakes up within this time."""
_SHORTEST_PREEMPTION_S = 0.001
_LONGEST_THROTTLE_S = 2.0


class SimulatedStreamActor(StreamActor):
    """The production shell without threads: its loop is stepped by the process."""

    def __init__(self, process: ActorProcess) -> None:
        self._actor_id = process.name
        self._loop: StreamLoop | None = None
        self._process = process
        self._generation = process.generation
        self._log = QUIET
        self.lease = self._lease = Lease(process.world.clock.monotonic_s)

    @override
    async def start(self, coordinator: Any, slot: int) -> str:
        if self._loop is None:
            self._loop = self._process.open_loop(RemoteCoordinator(self._process), slot)
        await asyncio.wrap_future(self._loop.take(Assign(0, {}, {})))
        self._lease.begin(lease_s(self._process.cluster.spec.config))
        return self._process.node

    def committer(self, coordinator: Any) -> Callable[[CommitRequest], Future[CommitAnswer]]:
        """Asks the coordinator beside the loop."""

        calls = self._commit_calls(coordinator)

        def ask(request: CommitRequest) -> Future[CommitAnswer]:
            answer: Future[CommitAnswer] = Future()
            self._process.spawn(_settle(calls.commit(request), answer))
            return answer

        return ask

    @property
    def loop(self) -> StreamLoop | None:
        """Returns when the actor is started."""
        return self._loop


async def _settle(work: Coroutine[Any, Any, Any], answer: Future[Any]) -> None:
    try:
        answer.set_result(await work)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # whatever it is, the caller that waits must hear of it
        answer.set_exception(error)


class _WorkingClock:
    """The clocks of a process: time passes while its thread works, and another thread may come in between."""

    def __init__(self, process: ActorProcess) -> None:
        self._process = process

    def wall_ms(self) -> int:
        return self._process.world.clock.wall_ms()

    def monotonic_s(self) -> float:
        return self._process.work()

    def thread_cpu_s(self) -> float:
        return self._process.world.clock.thread_cpu_s()


class ActorProcess:
    """The process of an actor on ``node``, whose disk outlives it."""

    def __init__(self, cluster: Cluster, name: str, node: str, generation: int) -> None:
        self.cluster, self.name, self.node, self.generation = cluster, name, node, generation
        self.world = cluster.world
        self.rng: Random = cluster.world.rng
        self.exists = True
        self.taken_for_dead, self.dead_since_s = False, math.inf
        """Set when Ray takes the process for dead, though it may live."""
        self.frozen_until = self.cut_from_ray_until = self.cut_from_broker_until = 0.0
        self.throttled_until = self.commits_held_until = 0.0
        self._portion_at_s = 0.0
        self.troubled_until = 0.0
        """Time until which a missing answer is no violation."""
        self.actor = SimulatedStreamActor(self)
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._blocked_s = self._worked_s = 0.0
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._step: asyncio.TimerHandle | None = None
        self._steps = 0

    # ---- the place where its clients live ----

    def now(self) -> float:
        return self.world.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        while self.now() < self.frozen_until:
            await asyncio.sleep(min(_LOOK_S, self.frozen_until - self.now()))

    async def travel(self) -> None:
        """Waits for the time that a call or an answer takes between this process and another."""
        await asyncio.sleep(self.rng.uniform(0.0, self.world.longest_message_s))

    @property
    def reaches_broker(self) -> bool:
        return self.world.broker.answers and self.now() >= self.cut_from_broker_until

    @property
    def reaches_ray(self) -> bool:
        return self.now() >= self.cut_from_ray_until

    def block(self, seconds: float) -> None:
        self._blocked_s += seconds

    def work(self) -> float:
        """Advances the thread's time within its step, and returns it."""
        swarm, rng = self.world.swarm, self.rng
        is_preempted = rng.random() < swarm.preempted
        self._worked_s += (
            rng.uniform(_SHORTEST_PREEMPTION_S, swarm.longest_preemption_s) if is_preempted else swarm.tick_s
        )
        return self.world.clock.monotonic_s() + self._worked_s

    def portion(self, waiting: int) -> int:
        """Returns how many of its waiting records the broker takes at once. A throttled process delivers one now and
        then."""
        if self.now() >= self.throttled_until:
            return waiting if self.rng.random() < 0.7 else self.rng.randint(1, waiting)
        if self.now() < self._portion_at_s:
            return 0
        self._portion_at_s = self.now() + self.rng.uniform(0.1, _LONGEST_THROTTLE_S)
        return 1

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None and self.exists:
            self.world.broke(error)

    # ---- its life ----

    def open_loop(self, coordinator: Any, slot: int) -> StreamLoop:
        spec, world = self.cluster.spec, self.world
        config = spec.config.model_copy(update={"state_dir": self.disk})
        here = ApplicationSpec(spec.topology, config)
        clients = SimulatedClients(world.broker, self, spec.application_id, world.exactly_once)
        clock = _WorkingClock(self)
        loop = StreamLoop(
            here,
            self.name,
            clients,
            self.actor.committer(coordinator),
            clock,
            self.node,
            slot,
            self.cluster.name,
            lease=self.actor.lease,
            calls=lambda wake: SimulatedCalls(self),
        )
        self._step = asyncio.get_running_loop().call_later(0.001, self._go_round)
        loop.finished.add_done_callback(self._loop_ended)
        self.spawn(self._look_at_lease(loop))
        self.spawn(self._belong(coordinator))
        return loop

    async def _look_at_lease(self, loop: StreamLoop) -> None:
        """Acts as the thread of the production shell, which runs also while the loop waits within a step."""
        while True:
            await self.sleep(_LOOK_AT_LEASE_EACH_S)
            loop.standstill.end_if_over()

    async def _belong(self, coordinator: Any) -> None:
        belonging = Belonging(self.name, QUIET, self._leave)
        while True:
            await belonging.ask(coordinator)
            await self.sleep(LOOK_EVERY_S)

    def _leave(self) -> None:
        """Ends the process, which has heard that it is no longer part of the application."""
        self.world.note(f"{self.name} leaves")
        if self.is_well:
            self.world.violation(f"{self.name} leaves the application, though nothing is wrong with it")
        self.end()

    @property
    def is_well(self) -> bool:
        """True if nothing is wrong with it, and it has work."""
        loop = self.actor.loop
        # An actor that must stop may be ended after 120 s, also while no broker answers.
        working = loop is not None and not loop.finished.done() and bool(loop._tasks) and loop._stopped is None
        # If its node is away for another actor, a late answer makes this one seem away, too.
        well = self.now() > self.troubled_until and self.cluster.reaches_node(self.node)
        return working and well and self.cluster.is_settled

    @property
    def disk(self) -> Path:
        return self.world.disk_of(self.node)

    def _go_round(self) -> None:
        loop = self.actor.loop
        if not self.exists or loop is None or loop.finished.done():
            return
        if self.now() < self.frozen_until:
            wait_s = min(_LOOK_S, self.frozen_until - self.now())
            self._step = asyncio.get_running_loop().call_later(wait_s, self._go_round)
            return
        if self.generation in self.cluster.bad_generations and loop._tasks:
            loop._fail(StreamsError("the new version has a mistake"))
            return
        self.world.steps += 1
        self.world.processes.at_work = self
        wait_s = loop.step(0.0)
        blocked_s = self._blocked_s + self._worked_s
        self._blocked_s = self._worked_s = 0.0
        shortest_s, longest_s = (wait_s, max(wait_s, self.world.swarm.longest_idle_s)) if wait_s else (0.0005, 0.003)
        next_s = blocked_s + self.rng.uniform(shortest_s, longest_s)
        self._step = asyncio.get_running_loop().call_later(next_s, self._go_round)

    def _loop_ended(self, finished: Future[str | None]) -> None:
        error = None if finished.cancelled() else finished.result()
        reported = self.taken_for_dead or self.generation in self.cluster.bad_generations
        if error is not None and self.exists and not reported and self.now() > self.troubled_until:
            self.world.violation(f"{self.name} ended itself: {error}")

    def end(self) -> None:
        """Ends the process in the middle of its work: its transaction is not aborted, and it leaves without a word."""
        if not self.exists:
            return
        self.exists = False
        if self._step is not None:
            self._step.cancel()
        for task in list(self._tasks):
            task.cancel()
        self.world.processes.end(self)
        self._drop_memory()
        if not self.died.done():
            self.died.set_result(None)
        self.world.note(f"{self.name} is gone")

    def _drop_memory(self) -> None:
        """Close what is open, as the end of a process does; what is not written is lost."""
        loop = self.actor.loop
        if loop is None or loop.finished.done():
            return
        loop._commits.abandon()
        loop._job = None
        for hosted in loop._tasks.values():
            hosted.state_manager.close()
        for standby in loop._standbys.by_id.values():
            standby.state_manager.close()
        loop._globals.close()

    def freeze(self, seconds: float) -> None:
        self.frozen_until = self.now() + seconds
        self._trouble(seconds)

    def cut_from_broker(self, seconds: float) -> None:
        self.cut_from_broker_until = self.now() + seconds
        self._trouble(seconds)

    def cut_from_ray(self, seconds: float) -> None:
        self.cut_from_ray_until = self.now() + seconds
        self._trouble(seconds)

    def throttle(self, seconds: float) -> None:
        self.throttled_until = self.now() + seconds
        self._trouble(seconds)

    def hold_commits(self, seconds: float) -> None:
        """Delays commits: those on their way and later ones reach the coordinator after this time."""
        self.commits_held_until = self.now() + seconds
        self._trouble(seconds)

    def _trouble(self, seconds: float) -> None:
        self.troubled_until = max(self.troubled_until, self.now() + seconds + 150)

    def be_taken_for_dead(self, ghost_s: float) -> None:
        """Lets Ray report the process as dead to every caller. It lives on for ``ghost_s`` seconds."""
        self.taken_for_dead, self.dead_since_s = True, self.now()
        if not self.died.done():
            self.died.set_result(None)
        asyncio.get_running_loop().call_later(ghost_s, self.end)
