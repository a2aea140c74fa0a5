"""A stream actor leaves a node that ``penstock drain-node`` is run for: ``python -m tests.elastic.drained_node``."""

from __future__ import annotations

import threading
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from penstock.cluster.names import NAMESPACE, stream_actor_name
from penstock.cluster.ray_cluster.node_drain import drain, stream_actors_on
from penstock.cluster.watchers.drain_watch import draining_nodes
from tests.elastic.cluster import ray_nodes, say
from tests.waiting import PATIENCE_S, eventually

STREAM_ACTOR = stream_actor_name("app", "stream/1")


def started(node: str, name: str) -> Any:
    """Returns an actor of this name on a node, when it lives."""

    @ray.remote(num_cpus=0)
    class Idle:
        def node(self) -> str:
            found: str = ray.get_runtime_context().get_node_id()
            return found

    strategy = NodeAffinitySchedulingStrategy(node, soft=False)
    actor = Idle.options(name=name, namespace=NAMESPACE, scheduling_strategy=strategy).remote()  # type: ignore[attr-defined]
    assert ray.get(actor.node.remote()) == node
    return actor


def main() -> None:
    with ray_nodes(1, 1) as (_, nodes):
        leaving, staying = (node.node_id for node in nodes)
        actor, other = started(leaving, STREAM_ACTOR), started(staying, stream_actor_name("app", "stream/2"))
        unrelated = started(leaving, "unrelated")
        assert stream_actors_on(leaving) == [STREAM_ACTOR]
        assert not drain(leaving, 0, say)
        lines: list[str] = []
        drained: list[bool] = []
        waiting = threading.Thread(target=lambda: drained.append(drain(leaving, PATIENCE_S, lines.append)))
        waiting.start()
        eventually(lambda: bool(lines), "a line about the actor that is still there")
        assert [*draining_nodes()] == [leaving]
        assert drained == []
        ray.kill(actor)
        waiting.join()
        assert drained == [True]
        assert lines == [f"1 stream actors are still on this node: {STREAM_ACTOR}"]
        assert ray.get([other.node.remote(), unrelated.node.remote()]) == [staying, leaving]
        say("a node was drained")


if __name__ == "__main__":
    main()
