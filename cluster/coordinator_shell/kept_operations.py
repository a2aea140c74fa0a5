"""The placements that users want, and their last calls that restarted an actor, kept by Ray for as long as the
coordinator's actor has a name: a restarted coordinator continues with them, and knows a call that Ray repeats."""

from __future__ import annotations

import json
from collections.abc import Mapping

from penstock.actors.process.kept_value import KeptValue
from penstock.cluster.wishes import NO_WISHES, Wishes
from penstock.common.ids import TaskId

_WISHES, _CALLS = KeptValue("wishes"), KeptValue("restarts")


def save_wishes(actor_id: str, wishes: Wishes) -> None:
    """Save the wishes of this coordinator's users."""
    by_task = {str(task): to for task, to in wishes.by_task.items()}
    _WISHES.put(actor_id, json.dumps([by_task, sorted(wishes.among)]))


def load_wishes(actor_id: str) -> Wishes:
    """Returns what was saved last."""
    if (kept := _WISHES.get(actor_id)) is None:
        return NO_WISHES
    by_task, among = json.loads(kept)
    return Wishes({TaskId.parse(task): to for task, to in by_task.items()}, frozenset(among))


def save_calls(actor_id: str, calls: Mapping[str, str]) -> None:
    """Save the actor that each of the last calls has restarted."""
    _CALLS.put(actor_id, json.dumps(dict(calls)))


def load_calls(actor_id: str) -> dict[str, str]:
    """Returns what was saved last."""
    kept = _CALLS.get(actor_id)
    return {} if kept is None else json.loads(kept)


def delete(actor_id: str) -> None:
    """Delete what was saved for a coordinator that has ended permanently. Idempotent."""
    _WISHES.delete(actor_id)
    _CALLS.delete(actor_id)
