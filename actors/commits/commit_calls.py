"""Sends a stream actor's commits to the coordinator, which may be away for any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ray.exceptions import ActorDiedError, RayError, RayTaskError
from structlog.stdlib import BoundLogger

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.common.errors import ApplicationStateError
from penstock.common.within import within

CALL_S = 30.0
"""Seconds after which a call is lost. The coordinator answers each call within 20 s, with None while it has no other
answer."""
GONE_S = 300.0
"""Ray restarts the coordinator without limit and holds calls meanwhile. If Ray reports it dead for this time (s), it
will not return, and the application has ended."""
_AGAIN_S = 0.2


class CommitCalls:
    """Repeats each commit until the coordinator answers it. A commit is idempotent, and the coordinator may be away, or
    be restarted, for any time: the actor waits."""

    def __init__(
        self, actor_id: str, call: Callable[[CommitRequest], Coroutine[Any, Any, CommitAnswer | None]], log: BoundLogger
    ) -> None:
        """``call`` asks the coordinator once. It returns None if the coordinator has no answer yet."""
        self._actor_id = actor_id
        self._call = call
        self._log = log

    async def commit(self, request: CommitRequest) -> CommitAnswer:
        """Returns the coordinator's answer. Raises ApplicationStateError if Ray reports the coordinator dead for
        GONE_S."""
        clock_s = asyncio.get_running_loop().time
        dead_since_s: float | None = None
        warned = False
        while True:
            try:
                answer = await within(CALL_S, self._call(request))
            except RayTaskError:
                raise  # the coordinator lives: the error is its own
            except (RayError, TimeoutError) as error:
                dead_since_s = (dead_since_s or clock_s()) if isinstance(error, ActorDiedError) else None
                if dead_since_s is not None and clock_s() - dead_since_s >= GONE_S:
                    raise ApplicationStateError(
                        f"actor {self._actor_id} cannot commit: Ray reports the coordinator dead for {GONE_S:.0f} s "
                        f"({type(error).__name__}): start the application again"
                    ) from error
                if not warned:
                    warned = True
                    self._log.warning("coordinator unreachable, commit waits for it", error=repr(error))
                await asyncio.sleep(_AGAIN_S)
            else:
                dead_since_s = None
                if answer is not None:
                    return answer
