"""Suspends the tasks of all actors before a rebalance of the group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from structlog.stdlib import BoundLogger

from penstock.actors.orders import Suspend
from penstock.cluster.environment import ActorHandle
from penstock.common.errors import StreamsError

SUSPEND_S = 10.0
"""Longest time for which a rebalance of the group waits for the last commits."""


async def suspend_all(handles: Iterable[ActorHandle], epoch: int, log: BoundLogger) -> None:
    """Returns when all have committed what they have done, or after SUSPEND_S."""
    suspending = {asyncio.ensure_future(_suspend(handle, epoch, log)): handle.actor_id for handle in handles}
    if not suspending:
        return
    _, late = await asyncio.wait(suspending, timeout=SUSPEND_S)
    for task in late:
        # It may wait for a broker, as all others do: no reason to end it.
        task.cancel()
        why = f"not within {SUSPEND_S:.0f} s"
        log.warning("actor has not committed before the rebalance", actor=suspending[task], error=why)


async def _suspend(handle: ActorHandle, epoch: int, log: BoundLogger) -> None:
    try:
        await handle.insist(Suspend(epoch))
    except StreamsError as error:  # the watcher of the actor notices its end
        log.warning("actor has not committed before the rebalance", actor=handle.actor_id, error=str(error))
