"""A node is lost under an application with standbys: ``python -m tests.elastic.lost_node BROKER FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from penstock.cluster.read_side import ActorStatus, ApplicationStatus
from tests.elastic.cluster import KEYS, PARTITIONS, SlowCount, ray_nodes, say
from tests.waiting import eventually


def copies(status: ApplicationStatus) -> dict[str, set[str]]:
    """For each actor the tasks whose stores it keeps a copy of, caught up."""
    return {
        actor.actor_id: {str(standby.task_id) for standby in actor.standbys if standby.lag <= 10}
        for actor in status.actors
    }


def main(broker: str, folder: Path) -> None:
    settings = {"num.standby.replicas": 1, "processing.guarantee": "exactly_once_v2"}
    it = SlowCount(broker, f"lost-{os.getpid()}", folder / "state", 0.0, **settings)
    with ray_nodes(1, 1) as (cluster, _), it.app:
        it.app.wait_until_running()
        it.send(5000)
        eventually(lambda: it.processed() == 5000, "all counted")
        eventually(lambda: sum(map(len, copies(it.app.status()).values())) == PARTITIONS, "a copy of each store")
        first, second = sorted(it.app.status().actors, key=lambda actor: actor.actor_id)
        assert first.node_id != second.node_id
        assert copies(it.app.status()) == {first.actor_id: tasks(second), second.actor_id: tasks(first)}
        say("two nodes, an actor on each, with copies of the other's stores")
        (node,) = (node for node in cluster.worker_nodes if node.node_id == first.node_id)
        cluster.remove_node(node, allow_graceful=False)
        with suppress(ProcessLookupError):
            os.kill(first.pid, signal.SIGKILL)  # left to itself it ends a moment later, and counts all before that
        killed_s = time.monotonic()
        it.send(1000)
        eventually(lambda: it.processed() == 6000, "all counted after the loss")
        took_s = time.monotonic() - killed_s
        say(f"the node is gone; {second.actor_id} has taken its tasks over, all is counted after {took_s:.1f} s")
        hosted = {str(task): actor for task, actor in it.app.status().placement.items()}
        assert {hosted[task] for task in tasks(first)} == {second.actor_id}
        assert [count for _, count in it.app.store("counts").all()] == [6000 // KEYS] * KEYS
        assert it.is_exact()
        say(f"{sum(it.sent.values()):,} records, each counted once")


def tasks(actor: ActorStatus) -> set[str]:
    return {str(task.task_id) for task in actor.tasks}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
