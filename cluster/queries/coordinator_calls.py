"""Calls of a reader to the coordinator of an application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from ray.exceptions import RayError, RayTaskError

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.queries.actor_calls import CALL_S
from penstock.cluster.ray_cluster.named_actors import require_coordinator
from penstock.cluster.status import ApplicationStatus
from penstock.common.errors import ApplicationStateError, BrokerUnreachableError, TaskNotReadyError
from penstock.common.within import within

T = TypeVar("T")


class CoordinatorCalls:
    """Calls the coordinator of ``application_id``, and looks it up again if it is another one than before; then calls
    ``found``. Every call raises ApplicationStateError if there is none, TaskNotReadyError if it does not answer."""

    def __init__(self, application_id: str, found: Callable[[], None]) -> None:
        self._application_id = application_id
        self._found = found
        self._coordinator: Any = None

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Returns the answer of a method of the coordinator."""
        for attempt in range(2):
            if self._coordinator is None:
                self._coordinator = await asyncio.to_thread(require_coordinator, self._application_id)
                self._found()
            try:
                ref = getattr(self._coordinator, method).remote(*arguments)
                return await within(CALL_S, asyncio.wrap_future(ref.future()))
            except RayTaskError:
                raise
            except RayError:
                self._coordinator = None
                if attempt:
                    raise ApplicationStateError(f"application {self._application_id!r} does not run") from None
            except TimeoutError:
                raise TaskNotReadyError(f"the coordinator of {self._application_id!r} does not answer") from None
        raise AssertionError("unreachable")

    async def require_broker(self) -> None:
        """Raise BrokerUnreachableError at once if the coordinator knows that no broker answers."""
        status: ApplicationStatus = await self.ask("status")
        if status.health.no_broker:
            raise BrokerUnreachableError(status.waiting or "no broker answers")

    async def ask_program(self, question: Callable[[ApplicationSpec], T]) -> T:
        """Returns the answer of ``question``, which can be pickled, about the program that runs: the coordinator calls
        it, so the caller needs none of the program's code."""
        answer: T = await self.ask("ask_program", question)
        return answer
