"""Operations on a running application from outside. ``cluster/queries/operations.py`` asks the coordinator for them."""

from __future__ import annotations

from typing import Protocol

from penstock.cluster.status import ApplicationStatus
from penstock.common.ids import TaskId


class OperateSide(Protocol):
    """Changes to one application. Every call may raise ApplicationStateError: the application does not run; or
    TaskNotReadyError: the coordinator does not answer."""

    async def pause(self, paused: bool) -> ApplicationStatus:
        """Pause or resume all tasks. Returns the status after that."""

    async def scale(self, count: int) -> str | None:
        """Set the number of stream actors from now on. Returns the reason if that is refused."""

    async def move(self, task: TaskId, to: str) -> str | None:
        """Have a task move to another stream actor, where its stores are warmed up first. Returns the reason if that is
        refused; else it is under way."""

    async def restart(self, actor_id: str) -> str | None:
        """Have a stream actor commit and end, and another start in its place. Returns the reason if that is refused;
        else it is under way."""
