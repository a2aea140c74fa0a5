"""One story on a Ray cluster of several nodes: ``python -m tests.elastic BROKER FOLDER``. It prints each step.

In a process of its own: Ray knows one cluster per process.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import ray

from penstock.cluster.ray_cluster.named_actors import find_coordinator, find_stream_actors
from tests.elastic.cluster import SlowCount, add_node, drain, ray_nodes, say
from tests.processes import signal_ray_process
from tests.waiting import PATIENCE_S, eventually

RECORD_S = 0.002
RECORDS = 10_000
"""20 s of work for one actor, 5 s for four."""


def actors(it: SlowCount) -> list[Any]:
    return sorted(it.app.status().actors, key=lambda actor: actor.actor_id)


def hosting(it: SlowCount) -> int:
    return len(set(it.app.status().placement.values()))


def main(broker: str, folder: Path) -> None:
    name = f"elastic-{os.getpid()}"
    bounds = {"min.stream.actors": 1, "max.stream.actors": 4, "scaling.window.ms": 2000}
    it = SlowCount(broker, name, folder / "state", RECORD_S, **bounds)
    with ray_nodes(1) as (cluster, _), it.app:
        it.app.wait_until_running(PATIENCE_S)
        say("one node of one CPU, one stream actor")
        assert len(actors(it)) == 1
        it.send(RECORDS)
        _scales_up(cluster, it, name)
        _keeps_its_number_over_a_restart(it, name)
        _scales_down(it, name)
        _leaves_a_drained_node(cluster, it, name)
        assert it.is_exact()
        say(f"{sum(it.sent.values()):,} records, each counted once")


def _scales_up(cluster: Any, it: SlowCount, name: str) -> None:
    def wanted() -> int:
        scaling = it.app.status().scaling
        return scaling.wanted if scaling is not None else 0

    eventually(lambda: wanted() == 4, "four actors wanted")
    say("load: four actors are wanted; three of them wait for a CPU")
    assert len(find_stream_actors(name)) == 4, "those that wait are demand that Ray's autoscaler sees"
    assert hosting(it) == 1
    # On the head: a node that ends must not end it, too.
    coordinator: Any = find_coordinator(name)
    lives_on = coordinator.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())
    assert ray.get(lives_on) == cluster.head_node.node_id
    add_node(cluster, 3)
    eventually(lambda: hosting(it) == 4, "tasks on four actors")
    say("a node of three CPUs has come: all four have tasks")
    before, since_s = it.processed(), time.monotonic()
    eventually(lambda: it.processed() == sum(it.sent.values()), "no lag")
    rate = (it.processed() - before) / (time.monotonic() - since_s)
    say(f"caught up, at {rate:,.0f} records/s (one actor: at most {1 / RECORD_S:,.0f})")
    assert rate > 2 / RECORD_S, "four actors are not twice as fast as one"


def _keeps_its_number_over_a_restart(it: SlowCount, name: str) -> None:
    count = len(it.app.status().actors)
    if count < 4:
        return  # it has begun to scale down
    coordinator: Any = find_coordinator(name)
    signal_ray_process(ray.get(coordinator.process.remote()).pid)
    it.app.wait_until_running(PATIENCE_S)
    scaling = it.app.status().scaling
    assert scaling is not None
    assert scaling.wanted == 4
    say("a coordinator that was killed goes on with four actors")


def _scales_down(it: SlowCount, name: str) -> None:
    eventually(lambda: len(actors(it)) == 1 and hosting(it) == 1, "one actor")
    say("nothing to do for five windows: one actor is left")
    assert it.app.remove_stream_actor() is None, "min.stream.actors"
    added = it.app.add_stream_actor()
    assert added is not None
    eventually(lambda: hosting(it) == 2, "tasks on the actor that was added")
    removed = it.app.remove_stream_actor()
    assert removed is not None
    assert removed not in find_stream_actors(name)
    eventually(lambda: len(actors(it)) == 1 and hosting(it) == 1, "one actor again")
    say(f"{added} was added, {removed} removed")


def _leaves_a_drained_node(cluster: Any, it: SlowCount, name: str) -> None:
    (before,) = actors(it)
    it.send(1000)
    drain(cluster, before.node_id, seconds=30)
    begun_s = time.monotonic()
    eventually(lambda: [actor.node_id for actor in actors(it)] not in ([], [before.node_id]), "another node", 20)
    eventually(lambda: all(actor.node_id != before.node_id for actor in actors(it)), "the drained node is left", 20)
    took_s = time.monotonic() - begun_s
    (after,) = actors(it)
    assert before.actor_id not in find_stream_actors(name)
    say(f"a node is drained: {after.actor_id} has replaced {before.actor_id} after {took_s:.1f} s of 30")
    (node,) = (node for node in cluster.worker_nodes if node.node_id == before.node_id)
    cluster.remove_node(node, allow_graceful=False)
    it.send(1000)
    it.app.wait_until_running(PATIENCE_S)
    eventually(lambda: it.processed() == sum(it.sent.values()), "no lag")
    say("the node is gone")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
