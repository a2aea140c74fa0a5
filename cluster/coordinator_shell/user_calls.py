"""The calls by which users change an application, and look at what it did."""

from __future__ import annotations

import asyncio

from structlog.stdlib import BoundLogger

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.application_history import ApplicationHistory
from penstock.cluster.coordinator_shell.deployments import Deployments
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.user_operations import UserOperations
from penstock.cluster.history.history import History
from penstock.cluster.rollout import Deployment
from penstock.cluster.scaling.scaling_watch import ScalingWatch
from penstock.cluster.status import ApplicationState
from penstock.common.errors import StreamsError
from penstock.common.ids import TaskId
from penstock.common.log import KEPT
from penstock.kafka.clients import ConfluentClients

_NO_ACTORS = "it has no actors"


class UserCalls:
    """A part of the coordinator's Ray actor. Ray may repeat each call, to a restarted coordinator, too."""

    _beginning: asyncio.Task[None]
    _deployments: Deployments
    _dispatcher: Dispatcher | None
    _history: History | None
    _log: BoundLogger
    _operations: UserOperations
    _scaling: ScalingWatch | None
    _spec: ApplicationSpec | None
    _state: ApplicationState

    async def change_stream_actors(self, by: int, call: str) -> str | None:
        """Add a stream actor or remove one: :meth:`~penstock.cluster.scaling.scaling_watch.ScalingWatch.change`."""
        await asyncio.wait({self._beginning})
        return await self._scaling.change(by, call) if self._scaling is not None else None

    async def set_stream_actors(self, count: int) -> str | None:
        """Set the number of stream actors from now on; returns the reason if that is refused."""
        await asyncio.wait({self._beginning})
        return await self._scaling.become(count) if self._scaling is not None else _NO_ACTORS

    async def move_task(self, task: TaskId, to: str) -> str | None:
        """Have a task move to another stream actor; returns the reason if that is refused."""
        await asyncio.wait({self._beginning})
        it = self._dispatcher
        return await self._operations.move(it, task, to) if it is not None else _NO_ACTORS

    async def restart_actor(self, name: str, call: str) -> str | None:
        """Have another stream actor take the place of this one; returns the reason if that is refused."""
        await asyncio.wait({self._beginning})
        it = self._dispatcher
        return await self._operations.restart(it, name, call) if it is not None else _NO_ACTORS

    async def deploy(self, wanted: Deployment) -> str | None:
        """Begin to roll out another version; returns the reason if that is refused."""
        await asyncio.wait({self._beginning})
        if self._dispatcher is None or self._spec is None:
            return f"the application is in state {self._state.value}"
        clients, it = ConfluentClients.of(self._spec.config), self._dispatcher
        try:
            return await self._deployments.deploy(wanted, it.machine, lambda: clients.admin().topics(), it.feed)
        except StreamsError as error:
            return str(error)

    async def operated(self, who: str, what: str, outcome: str) -> None:
        """Log what a command or a program has done to the application, in the *operations log*."""
        self._log.info("operation", who=who, what=what, outcome=outcome)

    async def history(self, from_ms: int, to_ms: int, tasks: bool, details: bool) -> ApplicationHistory | None:
        """Returns the history of these times, with what is wanted of it; None before it begins."""
        if self._history is None:
            return None
        self._history.logged(KEPT.give(times=1))
        return self._history.between(from_ms, to_ms, tasks, details)
