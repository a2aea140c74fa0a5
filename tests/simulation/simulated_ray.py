"""Calls between processes: each takes its time on the way, and so does its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ray.exceptions import ActorUnavailableError, RayTaskError
from typing_extensions import override

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.cluster.coordinator_shell.stream_actor_handle import STATUS_S, StreamActorHandle
from penstock.cluster.watchers.actor_watch import SILENT_AFTER_RESTART_S
from tests.simulation.ghosts import actor_died
from tests.simulation.swarm import LATEST_CALL_S

if TYPE_CHECKING:
    from tests.simulation.actor_process import ActorProcess

_UNAVAILABLE_AFTER_S = 3.0


class _Method:
    def __init__(self, process: ActorProcess, name: str) -> None:
        self._process, self._name = process, name

    def remote(self, *args: Any) -> _Call:
        return _Call(self._process, self._name, args)


class _Call:
    def __init__(self, process: ActorProcess, name: str, args: tuple[Any, ...]) -> None:
        self._process, self._name, self._args = process, name, args

    def future(self) -> Future[Any]:
        answer: Future[Any] = Future()
        self._process.world.spawn(self._travel(answer))
        return answer

    async def _travel(self, answer: Future[Any]) -> None:
        process = self._process
        work = process.world.spawn(self._called())
        work.add_done_callback(lambda it: it.cancelled() or it.exception())  # perhaps nobody waits for it any more
        await asyncio.wait({work, process.died}, return_when=asyncio.FIRST_COMPLETED)
        if answer.cancelled():
            return
        if not work.done() or work.cancelled():
            await process.travel()
            if not answer.cancelled():
                answer.set_exception(actor_died(process))
            return
        error = work.exception()
        if error is None:
            answer.set_result(work.result())
        else:
            answer.set_exception(error)

    async def _called(self) -> Any:
        process = self._process
        await process.travel()
        if process.rng.random() < process.world.late:
            late_s = process.rng.uniform(0, LATEST_CALL_S)
            coordinator = process.cluster.coordinator
            waits_s = SILENT_AFTER_RESTART_S if coordinator and coordinator.begins_again else STATUS_S
            if late_s > waits_s - 4 * process.world.longest_message_s:
                # The coordinator may end an actor whose answer takes longer than it waits.
                process.troubled_until = max(process.troubled_until, process.now() + late_s + STATUS_S)
            await asyncio.sleep(late_s)
        await self._be_connected()
        await process.sleep(0)
        called = process.spawn(_answer(getattr(process.actor, self._name)(*self._args)))
        await asyncio.wait({called})
        if called.cancelled():
            raise actor_died(process)
        await process.travel()
        await self._be_connected()
        value, error = called.result()
        if error is not None:
            raise RayTaskError(self._name, str(error), error)  # type: ignore[no-untyped-call]
        return value

    async def _be_connected(self) -> None:
        if not self._process.reaches_ray:
            await asyncio.sleep(_UNAVAILABLE_AFTER_S)
            if not self._process.reaches_ray:
                raise ActorUnavailableError("the network is gone", bytes(16))


async def _answer(work: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    try:
        return await work, None
    except Exception as error:
        return None, error


class RemoteActor:
    """The handle that Ray gives out for an actor."""

    def __init__(self, process: ActorProcess) -> None:
        self.process = process

    def __getattr__(self, name: str) -> _Method:
        return _Method(self.process, name)


class SimulatedActorHandle(StreamActorHandle):
    """The production calls, over the simulated Ray."""

    def __init__(self, process: ActorProcess) -> None:
        super().__init__(process.cluster.spec.application_id, process.name, RemoteActor(process))
        self._process = process

    @override
    async def start(self, slot: int) -> str:
        await self._process.cluster.a_cpu_is_free(self._process)
        return await super().start(slot)

    @override
    def kill(self) -> None:
        process = self._process
        if not process.exists or process.taken_for_dead:
            return
        process.world.note(f"{process.name} is killed by its coordinator")
        if not process.reaches_ray:
            process.be_taken_for_dead(process.world.ghost_s())
            return
        if process.is_well:
            process.world.violation(f"{process.name} is killed, though nothing is wrong with it")
        process.end()


class RemoteCoordinator:
    """The coordinator's handle: a call is repeated when the coordinator dies, until the next one has answered."""

    def __init__(self, process: ActorProcess) -> None:
        self._process = process

    @property
    def commit(self) -> _Commit:
        return _Commit(self._process)

    @property
    def has_actor(self) -> _HasActor:
        return _HasActor(self._process)


class _HasActor:
    """Asked once: a call fails while there is no coordinator, or when it dies."""

    def __init__(self, process: ActorProcess) -> None:
        self._process, self._answer = process, Future[bool]()

    def options(self, **_: int) -> _HasActor:
        return self

    def remote(self, actor_id: str) -> _HasActor:
        self._process.spawn(self._travel(actor_id))
        return self

    def future(self) -> Future[bool]:
        return self._answer

    async def _travel(self, actor_id: str) -> None:
        process, cluster = self._process, self._process.cluster
        await process.travel()
        # The calls of an actor that Ray takes for dead may be lost for as long as it lives.
        if process.taken_for_dead or not process.reaches_ray:
            return
        if (coordinator := cluster.coordinator) is None:
            self._answer.set_exception(ActorUnavailableError("it is being restarted", bytes(16)))
            return
        called = coordinator.spawn(coordinator.has_actor(actor_id))
        await asyncio.wait({called})
        await process.travel()
        if self._answer.cancelled() or process.taken_for_dead or not process.reaches_ray:
            return
        if called.cancelled():
            self._answer.set_exception(ActorUnavailableError("it has died", bytes(16)))
        else:
            self._answer.set_result(called.result())


class _Commit:
    def __init__(self, process: ActorProcess) -> None:
        self._process = process

    def remote(self, request: CommitRequest) -> _CommitCall:
        return _CommitCall(self._process, request)


class _CommitCall:
    def __init__(self, process: ActorProcess, request: CommitRequest) -> None:
        self._process, self._request = process, request

    def future(self) -> Future[CommitAnswer | None]:
        answer: Future[CommitAnswer | None] = Future()
        self._process.spawn(self._travel(answer))
        return answer

    async def _travel(self, answer: Future[CommitAnswer | None]) -> None:
        process, cluster = self._process, self._process.cluster
        while not answer.cancelled():
            await process.travel()
            coordinator = cluster.coordinator
            if coordinator is None or not process.reaches_ray or process.now() < process.commits_held_until:
                await process.sleep(0.5)
                continue
            called = coordinator.spawn(coordinator.take_commit(self._request))
            await asyncio.wait({called})
            if called.cancelled():
                continue  # the coordinator has died over it
            await process.travel()
            if process.reaches_ray and not answer.cancelled():
                answer.set_result(called.result())
                return
