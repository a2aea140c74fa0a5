"""The number of stream actors wanted, kept by Ray for as long as the coordinator's actor has a name: a restarted
coordinator continues with it. The last calls that added or removed an actor are kept, too: Ray may repeat them to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.actors.process import ray_kv


@dataclass(frozen=True)
class WantedCount:
    """The number of actors wanted. ``answers``: by the id of a call, the actor that it added or removed."""

    count: int
    answers: Mapping[str, str | None] = field(default_factory=dict)


def save(actor_id: str, wanted: WantedCount) -> None:
    """Keep the number for this coordinator."""
    kept = json.dumps([wanted.count, dict(wanted.answers)])
    ray_kv.put(_key(actor_id), kept)


def load(actor_id: str) -> WantedCount | None:
    """Returns what was saved last; None if nothing was."""
    kept = ray_kv.get(_key(actor_id))
    return None if kept is None else WantedCount(*json.loads(kept))


def delete(actor_id: str) -> None:
    """Delete the number of a coordinator that has ended for good. Idempotent."""
    ray_kv.delete(_key(actor_id))


def _key(actor_id: str) -> str:
    # Under the id of the actor, which a restart keeps: another start of the application is another actor.
    return f"wanted/{actor_id}"
