"""Keeps in Ray the final state of an application, and if it is paused, as long as its coordinator's actor has a name.

Ray restarts a coordinator whose process is lost, also one that only reports why its application has ended. Without
this, the new process would start the application again, and resume one that is paused.
"""

from __future__ import annotations

import asyncio
import json

from penstock.actors.process.kept_value import KeptValue
from penstock.cluster.ray_cluster.own_actor import own_id
from penstock.cluster.status import ApplicationState

_ENDED, _PAUSED = KeptValue("ended"), KeptValue("paused")


def save(actor_id: str, state: ApplicationState, error: str | None) -> None:
    """Save the state in which the application of this coordinator ended. Calls Ray, as the other functions do."""
    _ENDED.put(actor_id, json.dumps([state.value, error]))


def load(actor_id: str) -> tuple[ApplicationState, str | None] | None:
    """Returns what was saved; None if the application has not ended."""
    kept = _ENDED.get(actor_id)
    if kept is None:
        return None
    state, error = json.loads(kept)
    return ApplicationState(state), error


def save_paused(actor_id: str, paused: bool) -> None:
    """Save if the application of this coordinator is paused."""
    _PAUSED.put(actor_id, json.dumps(paused))


async def keep_paused(paused: bool) -> None:
    """Do :func:`save_paused` for the coordinator of this process, in another thread."""
    await asyncio.to_thread(save_paused, own_id(), paused)


def load_paused(actor_id: str) -> bool | None:
    """Returns what was saved; None if nothing was."""
    kept = _PAUSED.get(actor_id)
    return None if kept is None else bool(json.loads(kept))


def delete(actor_id: str) -> None:
    """Delete what was saved for a coordinator that has ended permanently. Idempotent."""
    _ENDED.delete(actor_id)
    _PAUSED.delete(actor_id)
