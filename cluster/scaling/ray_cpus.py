"""The CPUs of the Ray cluster that this process is connected to."""

from __future__ import annotations

from typing import Any

import ray

from penstock.cluster.ray_cluster.named_actors import actor_names
from penstock.cluster.scaling.cpu_watch import CpuUsage


def cluster_cpus() -> int:
    """Returns the number of CPUs of the Ray cluster."""
    resources = ray.cluster_resources()  # type: ignore[no-untyped-call]  # untyped in Ray
    return int(resources.get("CPU", 0))


def cpus_of_nodes() -> dict[str, int]:
    """The CPUs of each living node by its id."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # untyped in Ray
    return {node["NodeID"]: int((node.get("Resources") or {}).get("CPU", 0)) for node in nodes if node["Alive"]}


def node_labels() -> dict[str, dict[str, str]]:
    """The labels of each living node by its id."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # untyped in Ray
    return {node["NodeID"]: dict(node.get("Labels") or {}) for node in nodes if node["Alive"]}


def node_addresses() -> dict[str, tuple[str, int] | None]:
    """The address of the raylet of each node by its id; None for a dead one."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # untyped in Ray
    return {
        node["NodeID"]: (node["NodeManagerAddress"], node["NodeManagerPort"]) if node["Alive"] else None
        for node in nodes
    }


def cpu_usage() -> CpuUsage:
    """Returns how many CPUs there are, how many of them are free, and which actors may hold the others."""
    free = ray.available_resources().get("CPU", 0.0)  # type: ignore[no-untyped-call]  # untyped in Ray
    return CpuUsage(cluster_cpus(), free, actor_names())
