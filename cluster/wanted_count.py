"""How many stream actors are wanted, kept by Ray for as long as the coordinator's actor has a name: a restarted one
goes on with it. With it the last calls that added or removed an actor: Ray may repeat them to a restarted coordinator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ray.experimental import internal_kv

# Under the id of the actor, which a restart keeps: another start of the application is another actor.
_NAMESPACE = "penstock"


@dataclass(frozen=True)
class WantedCount:
    """``answers``: by the id of the call, the actor that it added or removed."""

    count: int
    answers: Mapping[str, str | None] = field(default_factory=dict)


def save(actor_id: str, wanted: WantedCount) -> None:
    """Keep it for this coordinator."""
    kept = json.dumps([wanted.count, dict(wanted.answers)])
    internal_kv._internal_kv_put(_key(actor_id), kept, namespace=_NAMESPACE)


def load(actor_id: str) -> WantedCount | None:
    """What was saved last; None if nobody has said how many are wanted."""
    kept = internal_kv._internal_kv_get(_key(actor_id), namespace=_NAMESPACE)
    return None if kept is None else WantedCount(*json.loads(kept))


def delete(actor_id: str) -> None:
    """The coordinator is ended for good, nobody will ask any more. Idempotent."""
    internal_kv._internal_kv_del(_key(actor_id), namespace=_NAMESPACE)


def _key(actor_id: str) -> str:
    return f"wanted/{actor_id}"
