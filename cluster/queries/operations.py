"""Operations on an application, its history and its versions: calls to the coordinator alone."""

from __future__ import annotations

import time
import uuid

from penstock.cluster.application_history import ApplicationHistory
from penstock.cluster.program_view import ProgramView, RolloutView
from penstock.cluster.queries.coordinator_calls import CoordinatorCalls
from penstock.cluster.read_side import state_error
from penstock.cluster.status import ApplicationStatus
from penstock.common.ids import TaskId


class Operations:
    """A part of :class:`~penstock.cluster.queries.queries.StateQueries`."""

    _coordinator: CoordinatorCalls

    async def pause(self, paused: bool) -> ApplicationStatus:
        """See :meth:`penstock.cluster.read_side.ReadSide.pause`."""
        status: ApplicationStatus = await self._coordinator.ask("pause", paused)
        if status.state.has_ended:
            raise state_error(status)
        return status

    async def scale(self, count: int) -> str | None:
        """See :meth:`penstock.cluster.read_side.ReadSide.scale`."""
        refused: str | None = await self._coordinator.ask("set_stream_actors", count)
        return refused

    async def move(self, task: TaskId, to: str) -> str | None:
        """See :meth:`penstock.cluster.read_side.ReadSide.move`."""
        refused: str | None = await self._coordinator.ask("move_task", task, to)
        return refused

    async def restart(self, actor_id: str) -> str | None:
        """See :meth:`penstock.cluster.read_side.ReadSide.restart`."""
        refused: str | None = await self._coordinator.ask("restart_actor", actor_id, uuid.uuid4().hex)
        return refused

    async def history(self, from_ms: int, to_ms: int, tasks: bool, details: bool) -> ApplicationHistory:
        """See :meth:`penstock.cluster.read_side.ReadSide.history`."""
        found: ApplicationHistory | None = await self._coordinator.ask("history", from_ms, to_ms, tasks, details)
        return found or ApplicationHistory(began_ms=time.time_ns() // 1_000_000)

    async def program_view(self, generation: int | None = None) -> ProgramView | None:
        """See :meth:`penstock.cluster.read_side.ReadSide.program_view`."""
        view: ProgramView | None = await self._coordinator.ask("program_view", generation)
        return view

    async def rollout_view(self) -> RolloutView:
        """See :meth:`penstock.cluster.read_side.ReadSide.rollout_view`."""
        view: RolloutView = await self._coordinator.ask("rollout_view")
        return view
