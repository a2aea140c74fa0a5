"""Operations on an application: calls to the coordinator."""

from __future__ import annotations

import uuid

from typing_extensions import override

from penstock.cluster.operate_side import OperateSide
from penstock.cluster.queries.coordinator_calls import CoordinatorCalls
from penstock.cluster.read_side import state_error
from penstock.cluster.status import ApplicationStatus
from penstock.common.ids import TaskId


class Operations(OperateSide):
    """:class:`~penstock.cluster.operate_side.OperateSide` of one application."""

    def __init__(self, coordinator: CoordinatorCalls) -> None:
        self._coordinator = coordinator

    @override
    async def pause(self, paused: bool) -> ApplicationStatus:
        status: ApplicationStatus = await self._coordinator.ask("pause", paused)
        if status.state.has_ended:
            raise state_error(status)
        return status

    @override
    async def scale(self, count: int) -> str | None:
        refused: str | None = await self._coordinator.ask("set_stream_actors", count)
        return refused

    @override
    async def move(self, task: TaskId, to: str) -> str | None:
        refused: str | None = await self._coordinator.ask("move_task", task, to)
        return refused

    @override
    async def restart(self, actor_id: str) -> str | None:
        refused: str | None = await self._coordinator.ask("restart_actor", actor_id, uuid.uuid4().hex)
        return refused
