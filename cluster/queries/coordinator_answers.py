"""Questions that the coordinator alone answers: the status, the history and the versions of an application."""

from __future__ import annotations

import time

from penstock.cluster.application_history import ApplicationHistory
from penstock.cluster.program_view import ProgramView, RolloutView
from penstock.cluster.queries.coordinator_calls import CoordinatorCalls
from penstock.cluster.status import ApplicationStatus


class CoordinatorAnswers:
    """A part of :class:`~penstock.cluster.queries.queries.StateQueries`."""

    _coordinator: CoordinatorCalls

    async def status(self) -> ApplicationStatus:
        """See :meth:`penstock.cluster.read_side.ReadSide.status`."""
        status: ApplicationStatus = await self._coordinator.ask("status")
        return status

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
