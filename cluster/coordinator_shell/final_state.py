"""Keeps how an application ended, and whether it is paused, in Ray, for as long as its coordinator's actor has a name.

Ray restarts a coordinator whose process is lost, also one that only reports why its application has ended. Without
this, it would start the application again, and resume one that is paused.
"""

from __future__ import annotations

import asyncio
import json

from penstock.actors.messages import ApplicationState
from penstock.actors.process import ray_kv
from penstock.cluster.ray_cluster.own_actor import own_id


def save(actor_id: str, state: ApplicationState, error: str | None) -> None:
    """Keep how the application of this coordinator ended. Asks Ray, as the others do."""
    ray_kv.put(_key(actor_id), json.dumps([state.value, error]))


def load(actor_id: str) -> tuple[ApplicationState, str | None] | None:
    """Returns what was saved; None if the application has not ended."""
    kept = ray_kv.get(_key(actor_id))
    if kept is None:
        return None
    state, error = json.loads(kept)
    return ApplicationState(state), error


def save_paused(actor_id: str, paused: bool) -> None:
    """Keep whether the application of this coordinator is paused."""
    ray_kv.put(_pause_key(actor_id), json.dumps(paused))


async def keep_paused(paused: bool) -> None:
    """Do :func:`save_paused` for the coordinator of this process, in another thread."""
    await asyncio.to_thread(save_paused, own_id(), paused)


def load_paused(actor_id: str) -> bool | None:
    """Returns what was saved; None if nothing was."""
    kept = ray_kv.get(_pause_key(actor_id))
    return None if kept is None else bool(json.loads(kept))


def delete(actor_id: str) -> None:
    """The coordinator is ended for good, nobody will ask any more. Idempotent."""
    for key in (_key(actor_id), _pause_key(actor_id)):
        ray_kv.delete(key)


def _key(actor_id: str) -> str:
    # Under the id of the actor, which a restart keeps: another start of the application is another actor.
    return f"ended/{actor_id}"


def _pause_key(actor_id: str) -> str:
    return f"paused/{actor_id}"
