"""The number of stream actors wanted, kept by Ray for as long as the coordinator's actor has a name: a restarted
coordinator continues with it. The last calls that added or removed an actor are kept, too, because Ray may repeat them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.actors.process.kept_value import KeptValue

_COUNT = KeptValue("wanted")


@dataclass(frozen=True)
class WantedCount:
    """The number of actors wanted. ``answers``: by the id of a call, the actor that it added or removed."""

    count: int
    answers: Mapping[str, str | None] = field(default_factory=dict)


def save(actor_id: str, wanted: WantedCount) -> None:
    """Keep the number for this coordinator."""
    _COUNT.put(actor_id, json.dumps([wanted.count, dict(wanted.answers)]))


def load(actor_id: str) -> WantedCount | None:
    """Returns what was saved last; None if nothing was."""
    kept = _COUNT.get(actor_id)
    return None if kept is None else WantedCount(*json.loads(kept))


def delete(actor_id: str) -> None:
    """Delete the number of a coordinator that has ended permanently. Idempotent."""
    _COUNT.delete(actor_id)
