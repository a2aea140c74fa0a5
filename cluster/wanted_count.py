"""How many stream actors are wanted, kept by Ray for as long as the coordinator's actor has a name: a restarted one
goes on with it. With it the last calls that added or removed an actor: Ray may repeat them to a restarted coordinator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.actors import ray_kv


@dataclass(frozen=True)
class WantedCount:
    """``answers``: by the id of the call, the actor that it added or removed."""

    count: int
    answers: Mapping[str, str | None] = field(default_factory=dict)


def save(actor_id: str, wanted: WantedCount) -> None:
    """Keep it for this coordinator."""
    kept = json.dumps([wanted.count, dict(wanted.answers)])
    ray_kv.put(_key(actor_id), kept)


def load(actor_id: str) -> WantedCount | None:
    """What was saved last; None if nobody has said how many are wanted."""
    kept = ray_kv.get(_key(actor_id))
    return None if kept is None else WantedCount(*json.loads(kept))


def delete(actor_id: str) -> None:
    """The coordinator is ended for good, nobody will ask any more. Idempotent."""
    ray_kv.delete(_key(actor_id))


def _key(actor_id: str) -> str:
    # Under the id of the actor, which a restart keeps: another start of the application is another actor.
    return f"wanted/{actor_id}"
