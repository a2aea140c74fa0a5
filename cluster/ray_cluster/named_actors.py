"""Finds the actors of applications in the Ray cluster that this process is connected to, by the names they have."""

from __future__ import annotations

from typing import Any

import ray

from penstock.cluster.names import NAMESPACE, application_of, coordinator_name, http_actor_name, stream_actor_id
from penstock.common.errors import ApplicationStateError


def actor_names() -> list[str]:
    """The names of all actors of penstock that live, or that wait for a CPU."""
    named = ray.util.list_named_actors(all_namespaces=True)
    return [entry["name"] for entry in named if entry["namespace"] == NAMESPACE]


def applications() -> list[str]:
    """The ids of all applications that this Ray cluster has."""
    found = map(application_of, actor_names())
    return sorted(application_id for application_id in found if application_id is not None)


def find_coordinator(application_id: str) -> Any | None:
    """The handle of an application's coordinator; None when there is none."""
    return _find(coordinator_name(application_id))


def require_coordinator(application_id: str) -> Any:
    """The handle of an application's coordinator. Raises ApplicationStateError when there is none."""
    coordinator = find_coordinator(application_id)
    if coordinator is None:
        raise ApplicationStateError(f"application {application_id!r} does not run")
    return coordinator


def find_http_actor(application_id: str) -> Any | None:
    """The handle of the actor that serves an application's HTTP; None when there is none."""
    return _find(http_actor_name(application_id))


def find_stream_actors(application_id: str) -> dict[str, Any]:
    """The handles of an application's stream actors, by actor id."""
    found = {}
    for name in actor_names():
        actor_id = stream_actor_id(name, application_id)
        handle = None if actor_id is None else _find(name)
        if actor_id is not None and handle is not None:  # else it has ended since it was listed
            found[actor_id] = handle
    return found


def _find(name: str) -> Any | None:
    try:
        return ray.get_actor(name, NAMESPACE)
    except ValueError:
        return None
