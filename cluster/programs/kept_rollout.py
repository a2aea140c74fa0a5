"""The last roll-out and the programs that it needs, kept by Ray for as long as the coordinator's actor has a name: a
restarted coordinator continues with them."""

from __future__ import annotations

import json
from dataclasses import asdict

from penstock.actors.process import ray_kv
from penstock.actors.process.kept_value import KeptValue
from penstock.cluster.rollout import Rollout, RolloutPhase

_ROLLOUT = KeptValue("rollout")


def save(actor_id: str, rollout: Rollout, call: str) -> None:
    """Save the roll-out of this coordinator, with the id of the call that began it."""
    _ROLLOUT.put(actor_id, json.dumps([{**asdict(rollout), "phase": rollout.phase.value}, call]))


def load(actor_id: str) -> tuple[Rollout, str] | None:
    """The last roll-out, and the call that began it; None if there was none."""
    kept = _ROLLOUT.get(actor_id)
    if kept is None:
        return None
    fields, call = json.loads(kept)
    return Rollout(**{**fields, "phase": RolloutPhase(fields["phase"])}), call


def save_program(actor_id: str, generation: int, program: bytes) -> None:
    """Save a version of the program."""
    ray_kv.put(_program_key(actor_id, generation), program)


def load_program(actor_id: str, generation: int) -> bytes | None:
    """A version of the program; None if it is not kept."""
    return ray_kv.get(_program_key(actor_id, generation))


def delete_program(actor_id: str, generation: int) -> None:
    """Delete a version of the program. Idempotent."""
    ray_kv.delete(_program_key(actor_id, generation))


def delete(actor_id: str) -> None:
    """Delete all of a coordinator that has ended permanently. Idempotent."""
    # A program is kept before its roll-out begins: one that never began is in no roll-out.
    ray_kv.delete_all(_programs_of(actor_id))
    _ROLLOUT.delete(actor_id)


def _program_key(actor_id: str, generation: int) -> str:
    return f"{_programs_of(actor_id)}{generation}"


def _programs_of(actor_id: str) -> str:
    return f"program/{actor_id}/"
