"""Names of an application's actors in Ray, and of its coordinator in Kafka."""

from __future__ import annotations

NAMESPACE = "penstock"
"""The Ray namespace that every named actor of penstock lives in."""

_COORDINATOR = "coordinator"


def coordinator_name(application_id: str) -> str:
    """Returns the name of an application's coordinator."""
    return f"penstock/{application_id}/{_COORDINATOR}"


def static_member_id(application_id: str, process_id: str) -> str:
    """Returns the static id of the coordinator in the consumer group: each Ray cluster has its own."""
    return f"{application_id}-{process_id}"


def stream_actor_name(application_id: str, actor_id: str) -> str:
    """Returns the name of a stream actor; ``actor_id`` is ``stream/<n>``."""
    return f"penstock/{application_id}/{actor_id}"


def http_actor_name(application_id: str) -> str:
    """Returns the name of the actor that hosts the HTTP server."""
    return f"penstock/{application_id}/http"


def actor_id(number: int) -> str:
    """Returns the id of the stream actor that was started as the ``number``-th."""
    return f"stream/{number}"


def actor_number(identifier: str) -> int:
    """Returns the number in a stream actor's id, as :func:`actor_id` made it. Raises ValueError for any other text."""
    kind, _, number = identifier.partition("/")
    if kind != "stream":
        raise ValueError(f"not the id of a stream actor: {identifier!r}")
    return int(number)


def application_of(name: str) -> str | None:
    """Returns the application whose coordinator is called ``name``; None for any other name."""
    head, _, rest = name.partition("/")
    application_id, _, kind = rest.partition("/")
    return application_id if head == "penstock" and kind == _COORDINATOR else None


def stream_actor_id(name: str, application_id: str) -> str | None:
    """Returns the actor id in ``name`` if that is a stream actor of the application; None for any other name."""
    prefix = f"penstock/{application_id}/"
    identifier = name.removeprefix(prefix)
    return identifier if name.startswith(prefix) and identifier.startswith("stream/") else None


def application_of_stream_actor(name: str) -> str | None:
    """Returns the application whose stream actor is called ``name``; None for any other name."""
    head, _, rest = name.partition("/")
    application_id, _, kind = rest.partition("/")
    return application_id if head == "penstock" and kind.startswith("stream/") else None
