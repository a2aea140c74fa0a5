"""A production stream loop in virtual time, and the calls to it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from structlog.stdlib import BoundLogger
from structlog.testing import ReturnLogger
from typing_extensions import override

from penstock.actors.clock import Clock
from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.commits.commit_calls import CommitCalls
from penstock.actors.loop.lease import Lease, QuestionId, lease_s
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.orders import Assign, Order
from penstock.actors.spec import ApplicationSpec
from penstock.actors.status import ActorEnd, ActorStatus
from penstock.cluster.environment import ActorEndedError, ActorHandle, ActorLostError
from penstock.common.errors import ApplicationStateError

if TYPE_CHECKING:
    from tests.cluster.outage_world import OutageWorld

T = TypeVar("T")
QUIET = BoundLogger(ReturnLogger(), [], {})
IDLE_S, AWAY_S = 0.1, 2.0


class VirtualClock(Clock):
    """The time of the event loop."""

    def wall_ms(self) -> int:
        return 1_000_000 + int(1000 * self.monotonic_s())

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    def thread_cpu_s(self) -> float:
        return self.monotonic_s()


class LivingActor(ActorHandle):
    """A stream loop, and the calls to it."""

    def __init__(self, world: OutageWorld, name: str) -> None:
        self.actor_id = name
        self.ray_handle = None
        self.loop: StreamLoop | None = None
        self.killed = self.died_by_itself = False
        self.raylet_has_ended = False
        self._lease = Lease(asyncio.get_running_loop().time, lambda: self.raylet_has_ended)
        self._world = world
        self._died: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @override
    async def start(self, slot: int) -> str:
        if self.loop is None:
            loop, calls = asyncio.get_running_loop(), CommitCalls(self.actor_id, self._world.call_coordinator, QUIET)

            def commit(request: CommitRequest) -> Future[CommitAnswer]:
                asked: Future[CommitAnswer] = Future()
                task = loop.create_task(calls.commit(request))
                task.add_done_callback(lambda it: None if it.cancelled() else asked.set_result(it.result()))
                return asked

            config = self._world.config.model_copy(update={"state_dir": self._world.directory / self.actor_id})
            spec = ApplicationSpec(self._world.topology, config)
            self.loop = StreamLoop(
                spec,
                self.actor_id,
                self._world.clients,
                commit,
                VirtualClock(),
                f"node of {self.actor_id}",
                slot,
                lease=self._lease,
            )
            self._world.spawn(self._go_round(self.loop))
        await self._answer(self.loop.take(Assign(0, {}, {})))
        self._lease.begin(lease_s(self._world.config))
        return f"node of {self.actor_id}"

    async def _go_round(self, loop: StreamLoop) -> None:
        while not loop.finished.done() and not self.killed:
            for _ in range(200):
                wait_s = loop.step()
                self._world.look()
                if wait_s > 0 or loop.finished.done():
                    break
            await asyncio.sleep(max(wait_s, AWAY_S if self._world.broker.down else IDLE_S))

    async def _answer(self, asked: Future[T]) -> T:
        answer = asyncio.wrap_future(asked)
        answer.add_done_callback(lambda it: None if it.cancelled() else it.exception())
        waiting: set[asyncio.Future[Any]] = {answer, self._died}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if self.killed:
            raise ActorLostError("its process is gone", has_ended=True)
        try:
            return answer.result()
        except ApplicationStateError as error:
            raise ActorEndedError(str(error)) from error

    def _started(self) -> StreamLoop:
        assert self.loop is not None
        return self.loop

    @override
    async def tell(self, order: Order) -> bool:
        await self._answer(self._started().take(order))
        return self._started().in_doubt

    insist = tell

    @override
    async def wait(self) -> ActorEnd:
        loop = self._started()
        error = await self._answer(loop.finished)
        return ActorEnd(error, loop.uncaught.response, loop.in_doubt)

    @override
    async def status(self, question_id: QuestionId) -> ActorStatus | None:
        self._lease.question_arrived(question_id)
        return await self._answer(self._started().status())

    @override
    async def heartbeat(self, question_id: QuestionId) -> bool:
        self._lease.question_arrived(question_id)
        return not self.killed

    @override
    def kill(self) -> None:
        self._world.ended.append(self.actor_id)
        self._die()

    def die(self) -> None:
        """Dies as by SIGKILL: nothing is closed cleanly, but another actor may open the stores."""
        self.died_by_itself = True
        self._die()

    def _die(self) -> None:
        if not self.killed:
            self.killed = True
            self._died.set_result(None)
            if self.loop is not None and not self.loop.finished.done():
                self.loop._guarantee.close = lambda: None  # type: ignore[method-assign]  # nothing is aborted
                self.loop._finish("killed")
