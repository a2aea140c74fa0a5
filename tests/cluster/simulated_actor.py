"""The process of a stream actor as the coordinator meets it, and the calls to it, in a simulated world.

It does what the stream loop does: one job after the other, a commit before a task is given up, a commit that is asked
for again until it is answered, tasks dropped when it is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, assert_never

from penstock.actors.commit_messages import CommitRequest
from penstock.actors.loop.lease import QuestionId
from penstock.actors.orders import Assign, Order, Pause, Stop, Suspend
from penstock.actors.status import ActorEnd, ActorStatus, StandbyStatus, TaskState, TaskStatus
from penstock.cluster.environment import ActorEndedError, ActorLostError, ActorSilentError
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.common.ids import Sources, TaskId, TopicPartition

if TYPE_CHECKING:
    from tests.cluster.simulated_application import SimulatedApplication


class SimulatedActor:
    """The process of a stream actor."""

    def __init__(self, world: SimulatedApplication, name: str, generation: int) -> None:
        self.world, self.name, self.generation = world, name, generation
        self.alive, self.up, self.stopping = True, False, False
        self.busy = False  # with one record
        self.frozen = False  # its whole process
        """True if it answers no question for its status."""
        self.epoch = 0
        self.tasks: dict[TaskId, frozenset[TopicPartition]] = {}
        self.running: set[TaskId] = set()
        self.taken: dict[TaskId, int] = {}
        """The epoch under which each task was begun."""
        self.suspended_under = 0
        self.node = world.rng.choice(world.nodes)
        self.standbys: dict[TaskId, int] = {}
        """Number of offsets that each lacks."""
        self.paused = False
        self.finished: asyncio.Future[ActorEnd] = asyncio.get_running_loop().create_future()
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jobs: deque[tuple[Callable[[], Coroutine[Any, Any, None]], asyncio.Future[None]]] = deque()
        self._more: asyncio.Future[None] | None = None
        self._stopped: asyncio.Future[None] | None = None
        self._number = 0
        self._loop_task: asyncio.Task[None] | None = None

    # ---- calls ----

    async def start(self, slot: int) -> str:
        if self._loop_task is None:
            await self.world.pause()
            self.up = self.alive
            self._loop_task = self.world.spawn(self._go_round())
        return self.node

    def take(self, order: Order) -> asyncio.Future[None]:
        match order:
            case Assign(epoch, sources, standbys):
                return self._queue(lambda: self._assignment(epoch, sources, standbys))
            case Suspend(epoch):
                return self._queue(lambda: self._suspending(epoch))
            case Pause(paused):
                return self._pause(paused)
            case Stop():
                if self._stopped is None:
                    self.stopping = True
                    self._stopped = self._queue(self._stopping)
                return self._stopped
            case _:
                assert_never(order)

    def status(self) -> ActorStatus:
        if not self.up:
            raise ActorEndedError("it is not started")
        tasks = tuple(
            TaskStatus(task, TaskState.RUNNING if task in self.running else TaskState.RESTORING) for task in self.tasks
        )
        standbys = tuple(StandbyStatus(task, lag) for task, lag in self.standbys.items())
        return ActorStatus(
            self.name, self.node, 1, self.epoch, tasks, stopping=self.stopping, paused=self.paused, standbys=standbys,
            generation=self.generation,
        )  # fmt: skip

    def _pause(self, paused: bool) -> asyncio.Future[None]:
        if not self.up:
            raise ActorEndedError("it is not started")
        self.paused = paused
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def fail(self, response: UncaughtExceptionResponse) -> None:
        """A task raises: its loop ends without a commit, its process lives on."""
        if self._loop_task is not None and not self.finished.done():
            self._loop_task.cancel()
            self._drop(list(self.tasks))
            self.standbys.clear()
            self.finished.set_result(ActorEnd("ValueError: bad", response))
            for _, waiting in self._jobs:
                waiting.set_exception(ActorEndedError("it has failed"))

    def kill(self) -> None:
        if self.alive:
            self.alive = False
            self.tasks.clear()
            self.running.clear()
            self.standbys.clear()
            self.died.set_result(None)
            if self._loop_task is not None:
                self._loop_task.cancel()

    # ---- its loop ----

    def _queue(self, job: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda it: it.exception())  # perhaps nothing waits for it any more
        if self.finished.done():
            done.set_exception(ActorEndedError("it was stopped"))
        else:
            self._jobs.append((job, done))
            self._wake()
        return done

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def _has_jobs_within(self, seconds: float | None) -> bool:
        if not self._jobs:
            loop = asyncio.get_running_loop()
            self._more = loop.create_future()
            timer = None if seconds is None else loop.call_later(seconds, self._wake)
            await self._more
            if timer is not None:
                timer.cancel()
        return bool(self._jobs)

    async def _go_round(self) -> None:
        while not self.finished.done():
            # Who has no tasks has nothing to commit.
            seconds = self.world.rng.uniform(*self.world.commit_each_s) if self.tasks else None
            if not await self._has_jobs_within(seconds):
                if self.suspended_under < self.epoch:
                    await self._commit(list(self.tasks))
                continue
            while self._jobs:
                job, done = self._jobs.popleft()
                await job()
                if not done.done():
                    done.set_result(None)

    async def _assignment(self, epoch: int, sources: Sources, standbys: Sources) -> None:
        assert not sources.keys() & standbys.keys(), "a task is active and standby on one actor"
        if epoch < self.epoch:
            return
        released = [task for task, reads in self.tasks.items() if sources.get(task) != reads]
        await self._commit(released)
        self._drop(released)
        self.epoch = epoch
        for task in sorted(sources.keys() - self.tasks.keys()):
            self.tasks[task] = sources[task]
            self.taken[task] = epoch
            self.world.moves += 1
            self.world.promoted += self.standbys.get(task) == 0
            self.world.spawn(self._restore(task))
        self.standbys = {task: self.standbys.get(task, 100_000) for task in standbys}
        for task in standbys:
            self.world.spawn(self._follow(task))
        self.world.check()

    async def _follow(self, task: TaskId) -> None:
        await self.world.pause()
        if task in self.standbys:
            self.standbys[task] = 0

    async def _restore(self, task: TaskId) -> None:
        await self.world.pause()
        if task in self.tasks:
            self.running.add(task)
            self.run_program()

    def run_program(self) -> None:
        """Its tasks process records from now on."""
        if self.generation in self.world.bad:
            self.world.spawn(self._meet_a_record())

    async def _meet_a_record(self) -> None:
        await self.world.pause()
        if self.alive:
            self.fail(UncaughtExceptionResponse.SHUTDOWN_CLIENT)

    async def _suspending(self, epoch: int) -> None:
        if epoch > self.epoch:
            self.suspended_under = max(epoch, self.suspended_under)
            await self._commit(list(self.tasks))

    async def _stopping(self) -> None:
        await self._commit(list(self.tasks))
        self._drop(list(self.tasks))
        self.finished.set_result(ActorEnd())
        for _, waiting in self._jobs:
            waiting.set_exception(ActorEndedError("it was stopped"))

    async def _commit(self, tasks: list[TaskId]) -> None:
        tasks = [task for task in tasks if task in self.running]
        if not tasks:
            return
        self._number += 1
        position = self.world.next_position()
        offsets = {partition: (position, "") for task in tasks for partition in self.tasks[task]}
        # Now and then under an assignment that has passed: whatever the reason, it must not stay without its tasks.
        stale = not self.world.calm and self.world.rng.random() < 0.05
        request = CommitRequest(self.name, self.epoch - stale, offsets, self._number)
        self.world.begun[position] = min(self.taken[task] for task in tasks)
        answer = await self.world.ask_to_commit(request)
        if not answer.accepted:
            self._drop(tasks)

    def _drop(self, tasks: list[TaskId]) -> None:
        for task in tasks:
            self.tasks.pop(task, None)
            self.running.discard(task)


class SimulatedHandle:
    """An :class:`~penstock.cluster.environment.ActorHandle`: delays, repeats, and notices the end of the process."""

    def __init__(self, actor: SimulatedActor) -> None:
        self.actor_id = actor.name
        self.ray_handle: Any = actor
        self._actor = actor
        self._world = actor.world

    async def start(self, slot: int) -> str:
        await self._world.a_cpu_is_free(self._actor)
        node: str = await self._alive(self._actor.start(slot))
        return node

    async def tell(self, order: Order) -> bool:
        if self._world.rng.random() < 0.1 and not self._world.calm:
            raise ActorSilentError("it does not answer")
        return await self.insist(order)

    async def insist(self, order: Order) -> bool:
        await self._twice(lambda: self._actor.take(order))
        return False

    async def wait(self) -> ActorEnd:
        finished = asyncio.shield(self._actor.finished)
        end: ActorEnd = await self._alive(finished)
        return end

    async def status(self, question_id: QuestionId) -> ActorStatus | None:
        await self._world.pause()
        if not self._actor.alive:
            raise ActorLostError("the process is gone", has_ended=True)
        if self._actor.busy or self._actor.frozen:
            return None
        status = self._actor.status()
        await self._world.pause()
        return status

    async def heartbeat(self, question_id: QuestionId) -> bool:
        await self._world.pause()
        return self._actor.alive and not self._actor.frozen

    def kill(self) -> None:
        self._actor.kill()

    async def _twice(self, call: Callable[[], asyncio.Future[None]]) -> None:
        """A message arrives although its sender dies, and perhaps again later."""
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def travel() -> None:
            await self._world.pause()
            done = call()
            done.add_done_callback(lambda it: None if arrived.done() else _copy(it, arrived))

        self._world.spawn(travel())
        if self._world.rng.random() < 0.2:
            self._world.spawn(travel())
        await self._alive(arrived)
        await self._world.pause()

    async def _alive(self, answer: Any) -> Any:
        answer = asyncio.ensure_future(answer)
        answer.add_done_callback(lambda it: it.cancelled() or it.exception())
        await asyncio.wait({answer, self._actor.died}, return_when=asyncio.FIRST_COMPLETED)
        if not self._actor.alive:
            await self._world.pause()
            raise ActorLostError("the process is gone", has_ended=True)
        return answer.result()


def _copy(done: asyncio.Future[None], into: asyncio.Future[None]) -> None:
    error = done.exception()
    if error is None:
        into.set_result(None)
    else:
        into.set_exception(error)
