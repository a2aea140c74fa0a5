"""How an application ended, and whether it is paused, kept by Ray for as long as its coordinator's actor has a name.

Ray restarts a coordinator whose process is lost, also one that only still says why its application ended: without this
it would start the application again, and let one that is paused go on.
"""

from __future__ import annotations

import json

from ray.experimental import internal_kv

from penstock.actors.messages import ApplicationState

# Under the id of the actor, which a restart keeps: another start of the application is another actor.
_NAMESPACE = "penstock"


def save(actor_id: str, state: ApplicationState, error: str | None) -> None:
    """Keep how the application of this coordinator ended. Asks Ray, as the others do."""
    internal_kv._internal_kv_put(_key(actor_id), json.dumps([state.value, error]), namespace=_NAMESPACE)


def load(actor_id: str) -> tuple[ApplicationState, str | None] | None:
    """What was saved; None if the application has not ended."""
    kept = internal_kv._internal_kv_get(_key(actor_id), namespace=_NAMESPACE)
    if kept is None:
        return None
    state, error = json.loads(kept)
    return ApplicationState(state), error


def save_paused(actor_id: str, paused: bool) -> None:
    """Keep whether the application of this coordinator is paused."""
    internal_kv._internal_kv_put(_pause_key(actor_id), json.dumps(paused), namespace=_NAMESPACE)


def load_paused(actor_id: str) -> bool | None:
    """What was saved; None if nothing was."""
    kept = internal_kv._internal_kv_get(_pause_key(actor_id), namespace=_NAMESPACE)
    return None if kept is None else bool(json.loads(kept))


def delete(actor_id: str) -> None:
    """The coordinator is ended for good, nobody will ask any more. Idempotent."""
    for key in (_key(actor_id), _pause_key(actor_id)):
        internal_kv._internal_kv_del(key, namespace=_NAMESPACE)


def _key(actor_id: str) -> str:
    return f"ended/{actor_id}"


def _pause_key(actor_id: str) -> str:
    return f"paused/{actor_id}"
