"""Values that Ray keeps for a coordinator that it restarts."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.actors.process import ray_kv


@dataclass(frozen=True)
class KeptValue:
    """One value of each coordinator, under a ``prefix`` of its own and the id of the coordinator's actor.

    A restarted coordinator has the same id. Another start of the application is another actor, with an id of its own.
    """

    prefix: str

    def put(self, actor_id: str, value: str | bytes) -> None:
        """Keep ``value`` in place of the one before."""
        ray_kv.put(self._key(actor_id), value)

    def get(self, actor_id: str) -> bytes | None:
        """Returns the value; None if there is none."""
        return ray_kv.get(self._key(actor_id))

    def delete(self, actor_id: str) -> None:
        """Delete the value. Idempotent."""
        ray_kv.delete(self._key(actor_id))

    def _key(self, actor_id: str) -> str:
        return f"{self.prefix}/{actor_id}"
