"""Stream actors are added and removed by users: ``KafkaStreams`` and ``penstock scale``. Mirrors KIP-663."""

from __future__ import annotations

import time
import uuid
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError

from penstock.cluster.client.control import status_of
from penstock.cluster.client.operations_log import log_operation
from penstock.common.errors import ApplicationStateError

_ANSWER_S = 30.0
_AGAIN_S = 0.5


def ask_coordinator(coordinator: Any, method: str, *arguments: Any) -> Any:
    """Call an idempotent method of the coordinator, also while it is being restarted. Returns None if it is gone.

    Raises ApplicationStateError when it does not answer.
    """
    deadline = time.monotonic() + _ANSWER_S
    while time.monotonic() < deadline:
        try:
            left_s = deadline - time.monotonic()
            return ray.get(getattr(coordinator, method).remote(*arguments), timeout=max(0.0, left_s))
        except ActorUnavailableError:
            time.sleep(_AGAIN_S)
        except RayActorError:
            return None
        except GetTimeoutError:
            break
    raise ApplicationStateError(f"the application's coordinator has not answered for {_ANSWER_S:.0f} s")


class ActorChanges:
    """The part of :class:`~penstock.cluster.client.kafka_streams.KafkaStreams` that changes the number of actors."""

    _coordinator: Any

    def add_stream_actor(self) -> str | None:
        """Start another stream actor; returns its id. It gets tasks when Ray has a CPU for it. Mirrors
        ``addStreamThread``.

        Returns None if that is not possible: the application is neither RUNNING nor REBALANCING, each task (with
        standbys: the task and each of its standbys) has an actor of its own already, or ``max.stream.actors`` would be
        exceeded. Raises ApplicationStateError if the coordinator does not answer.
        """
        return self._change(1)

    def remove_stream_actor(self, timeout_s: float = 60.0) -> str | None:
        """End a stream actor, which the coordinator chooses (docs/SCALING.md). The actor commits and closes its stores;
        the others take its tasks. Returns its id when it has ended. Mirrors ``removeStreamThread``.

        Returns None if that is not possible: the application is neither RUNNING nor REBALANCING, or no actor would be
        left, or fewer than ``min.stream.actors``. Raises ApplicationStateError if the actor has not ended after
        ``timeout_s`` seconds; it still ends later.
        """
        removed = self._change(-1)
        deadline = time.monotonic() + timeout_s
        while removed is not None and self._has(removed):
            if time.monotonic() >= deadline:
                raise ApplicationStateError(f"actor {removed} has not ended within {timeout_s:.0f} s; it will")
            time.sleep(_AGAIN_S / 5)
        return removed

    def _has(self, actor_id: str) -> bool:
        status = status_of(self._coordinator)
        return status is not None and any(actor.actor_id == actor_id for actor in status.actors)

    def _change(self, by: int) -> str | None:
        if self._coordinator is None:
            return None
        changed: str | None = ask_coordinator(self._coordinator, "change_stream_actors", by, uuid.uuid4().hex)
        what = "add a stream actor" if by > 0 else "remove a stream actor"
        log_operation(self._coordinator, what, changed or "not possible")
        return changed
