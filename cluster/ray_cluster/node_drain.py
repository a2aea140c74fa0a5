"""Lets the stream actors of all applications leave a node of Ray before its machine goes away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ray
import ray.core.generated.autoscaler_pb2
from ray._private.state import state as ray_state

from penstock.cluster.names import application_of_stream_actor
from penstock.common.errors import ApplicationStateError

_LOOK_EACH_S = 0.5
_PREEMPTION = "DRAIN_NODE_REASON_PREEMPTION"
"""The reason for a drain that Ray accepts even if actors are on the node."""


def drain(node: str, within_s: float, show: Callable[[str], None]) -> bool:
    """Tell Ray that ``node`` ends in ``within_s`` seconds, and wait until its stream actors have left it.

    Their coordinators see it within 2 s, and move their tasks. Ray starts no more actors there. Returns False if some
    are still there after that time. ``show`` gets a line when their number changes. Raises ApplicationStateError if Ray
    refuses.
    """
    deadline = time.monotonic() + within_s
    untyped: Any = ray
    gcs = untyped._raylet.GcsClient(address=ray.get_runtime_context().gcs_address)
    reason = untyped.core.generated.autoscaler_pb2.DrainNodeReason.Value(_PREEMPTION)
    ends_ms = time.time_ns() // 1_000_000 + int(within_s * 1000)
    accepted, why_not = gcs.drain_node(node, reason, "penstock drain-node", ends_ms)
    if not accepted:
        raise ApplicationStateError(f"Ray does not drain node {node}: {why_not}")
    shown: list[str] | None = None
    while (there := stream_actors_on(node)) and time.monotonic() < deadline:
        if there != shown:
            show(f"{len(there)} stream actors are still on this node: {', '.join(there)}")
            shown = there
        time.sleep(_LOOK_EACH_S)
    return not there


def stream_actors_on(node: str) -> list[str]:
    """Returns the names of the stream actors that live on a node, of all applications."""
    untyped: Any = ray_state
    alive = untyped.actor_table(None, actor_state_name="ALIVE").values()
    names = (each["Name"] for each in alive if each["Address"]["NodeID"] == node)
    return sorted(name for name in names if application_of_stream_actor(name) is not None)
