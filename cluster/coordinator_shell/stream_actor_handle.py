"""All Ray calls that the coordinator makes to stream actors, each safe to repeat."""

from __future__ import annotations

import asyncio
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, OutOfMemoryError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from typing_extensions import override

from penstock.actors.loop.lease import QuestionId
from penstock.actors.orders import Order
from penstock.actors.process.stream_actor import StreamActor
from penstock.actors.status import ActorEnd, ActorStatus
from penstock.cluster.environment import (
    ActorEndedError,
    ActorFailedError,
    ActorHandle,
    ActorLostError,
    ActorNameTakenError,
    ActorSilentError,
)
from penstock.cluster.names import NAMESPACE, stream_actor_name
from penstock.cluster.ray_cluster.named_actors import find_stream_actors, require_coordinator
from penstock.cluster.ray_cluster.ray_versions import on_no_node_of
from penstock.common.errors import ApplicationStateError
from penstock.common.within import within

STATUS_S = 10.0
HEARTBEAT_S = 5.0
_AGAIN_S = 0.5
_REPORTED_BY_ITS_NODE = "its worker process has died"
"""Ray reports the end of an actor also when its node does not answer, or when `ray.kill` has been sent: by other words
(``GcsActorManager``). If Ray changes these words, the coordinator waits for the lease of each actor that is lost."""


class StreamActorHandle(ActorHandle):
    """One stream actor, from outside: over Ray."""

    def __init__(self, application_id: str, actor_id: str, ray_handle: Any) -> None:
        self.actor_id = actor_id
        self.ray_handle = ray_handle
        self._application_id = application_id

    @classmethod
    def create(
        cls,
        application_id: str,
        actor_id: str,
        generation: int,
        spec: bytes,
        node: str,
        spread: bool,
        avoid: frozenset[str] = frozenset(),
    ) -> StreamActorHandle:
        """Ask Ray for an actor on a CPU, which it may have to wait for: of ``node``, if there is one now; else, with
        ``spread``, of a node with few actors. With ``avoid`` it is of any node but those. Raises ActorNameTakenError.
        """
        anywhere = "SPREAD" if spread else "DEFAULT"
        preferred = node and not avoid and NodeAffinitySchedulingStrategy(node, soft=True, _spill_on_unavailable=True)
        where = on_no_node_of(avoid, anywhere) if avoid else {"scheduling_strategy": preferred or anywhere}
        remote = ray.remote(StreamActor).options(
            name=stream_actor_name(application_id, actor_id),
            namespace=NAMESPACE,
            lifetime="detached",
            num_cpus=1,
            max_restarts=0,
            enable_task_events=False,
            **where,
        )
        try:
            return cls(application_id, actor_id, remote.remote(application_id, actor_id, spec, generation))
        except ValueError as error:
            raise ActorNameTakenError(str(error)) from error

    @classmethod
    def find(cls, application_id: str) -> list[StreamActorHandle]:
        """Every stream actor of the application that Ray has."""
        found = find_stream_actors(application_id)
        return [cls(application_id, actor_id, handle) for actor_id, handle in found.items()]

    @override
    async def start(self, slot: int) -> str:
        coordinator = require_coordinator(self._application_id)
        while True:
            try:
                started = asyncio.wrap_future(self.ray_handle.start.remote(coordinator, slot).future())
                node: str = await self._answer(started)
            except ActorUnavailableError:
                await asyncio.sleep(_AGAIN_S)
            else:
                return node

    @override
    async def tell(self, order: Order) -> bool:
        ref = asyncio.wrap_future(self.ray_handle.tell.remote(order).future())
        try:
            in_doubt: bool = await self._answer(within(STATUS_S, ref))
            return in_doubt
        except (TimeoutError, ActorUnavailableError) as error:
            raise ActorSilentError(f"actor {self.actor_id} does not answer") from error

    @override
    async def insist(self, order: Order) -> bool:
        while True:
            ref = asyncio.wrap_future(self.ray_handle.tell.remote(order).future())
            try:
                in_doubt: bool = await self._answer(ref)
            except ActorUnavailableError:
                await asyncio.sleep(_AGAIN_S)
            else:
                return in_doubt

    @override
    async def wait(self) -> ActorEnd:
        while True:
            try:
                end: ActorEnd = await self._answer(asyncio.wrap_future(self.ray_handle.wait.remote().future()))
            except ActorUnavailableError:
                await asyncio.sleep(_AGAIN_S)
            else:
                return end

    @override
    async def status(self, question_id: QuestionId) -> ActorStatus | None:
        ref = asyncio.wrap_future(self.ray_handle.status.remote(question_id).future())
        try:
            status: ActorStatus = await self._answer(within(STATUS_S, ref))
        except (TimeoutError, ActorUnavailableError):
            return None
        return status

    @override
    async def heartbeat(self, question_id: QuestionId) -> bool:
        ref = asyncio.wrap_future(self.ray_handle.heartbeat.remote(question_id).future())
        try:
            await within(HEARTBEAT_S, ref)
        except (TimeoutError, RayError):
            return False
        return True

    @override
    def kill(self) -> None:
        ray.kill(self.ray_handle)

    async def _answer(self, awaitable: Any) -> Any:
        try:
            return await awaitable
        except ActorUnavailableError:
            raise
        except RayTaskError as error:
            if isinstance(error.cause, ApplicationStateError):
                raise ActorEndedError(str(error.cause)) from error
            raise ActorFailedError(str(error.cause or error)) from error
        except RayError as error:  # whatever ended it (memory, its node, Ray itself): another takes its place
            raise ActorLostError(_first_line(error), has_ended=_process_has_ended(error)) from error


def _first_line(error: RayError) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _process_has_ended(error: RayError) -> bool:
    """Returns True if the raylet of its node has seen the end of the actor's process, or has ended it."""
    if isinstance(error, OutOfMemoryError):
        return True
    return isinstance(error, ActorDiedError) and _REPORTED_BY_ITS_NODE in str(error)
