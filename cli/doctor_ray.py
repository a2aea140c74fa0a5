"""Looks at the nodes of one Ray cluster, in a process of its own: ``python -m penstock.cli.doctor_ray HOST:PORT``.

Ray may end a process that loses its cluster, and waits for minutes for one that does not answer; this process may be
ended at any time. It prints one line of JSON: CPUs, and what a task on each node has found.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

_NODE_S = 15.0


def look(address: str) -> dict[str, Any]:
    """Returns CPUs, free CPUs, and the facts of each node. Raises ApplicationStateError."""
    ray: Any = importlib.import_module("ray")  # much of it has no types
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from penstock.cluster.ray_cluster.connections import connect_to_cluster
    from penstock.cluster.ray_cluster.ray_clusters import probe

    connect_to_cluster(probe(address), log_to_driver=False)
    there = ray.remote(num_cpus=0, max_retries=0)(facts_here)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    asked = {}
    for node in nodes:
        where = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked[str(node["NodeManagerAddress"])] = time.time(), there.options(scheduling_strategy=where).remote()
    free, all_of_them = ray.available_resources(), ray.cluster_resources()
    return {
        "cpus": all_of_them.get("CPU", 0.0),
        "free_cpus": free.get("CPU", 0.0),
        "nodes": [{"address": address, **_answer(*each)} for address, each in asked.items()],
    }


def facts_here() -> dict[str, Any]:
    """Returns the facts of this machine, as a task on a node finds them."""
    import resource

    try:
        from penstock.common.version import version

        penstock = version()
    except ImportError:
        penstock = ""
    python = ".".join(map(str, sys.version_info[:2]))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return {"python": python, "penstock": penstock, "time_s": time.time(), "open_files": files}


def _answer(asked_s: float, ref: Any) -> dict[str, Any]:
    import ray
    from ray.exceptions import RayError

    try:
        found: dict[str, Any] = ray.get(ref, timeout=_NODE_S)
    except RayError as error:
        return {"error": str(error).strip().splitlines()[0] or type(error).__name__}
    found["skew_s"] = least_skew_s(asked_s, found.pop("time_s"), time.time())
    return found


def least_skew_s(asked_s: float, there_s: float, answered_s: float) -> float:
    """Returns the seconds by which a node's clock surely differs from this one's. The node has looked at its clock at
    some time between the request and its answer, which may be seconds apart on a busy machine."""
    return min(0.0, there_s - asked_s) + max(0.0, there_s - answered_s)


if __name__ == "__main__":
    print(json.dumps(look(sys.argv[1])))
