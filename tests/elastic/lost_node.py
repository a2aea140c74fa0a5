"""A node is lost under an application with standbys: ``python -m tests.elastic.lost_node BROKER FOLDER``."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from penstock.cluster.read_side import ActorStatus, ApplicationState, ApplicationStatus
from penstock.common.ids import TopicPartition
from tests.elastic.cluster import PARTITIONS, SlowCount, ray_nodes, say
from tests.waiting import PATIENCE_S, eventually


def standbys(status: ApplicationStatus) -> dict[str, set[str]]:
    """Returns by actor the tasks of its standbys that are caught up."""
    return {
        actor.actor_id: {str(standby.task_id) for standby in actor.standbys if standby.lag <= 10}
        for actor in status.actors
    }


def main(broker: str, folder: Path) -> None:
    settings = {"num.standby.replicas": 1, "processing.guarantee": "exactly_once_v2"}
    it = SlowCount(broker, f"lost-{os.getpid()}", folder / "state", 0.0, **settings)
    with ray_nodes(1, 1) as (cluster, _), it.app:
        it.app.wait_until_running(PATIENCE_S)
        it.send(5000)
        eventually(lambda: it.processed() == 5000, "all counted")
        eventually(lambda: sum(map(len, standbys(it.app.status()).values())) == PARTITIONS, "a standby of each task")
        first, second = sorted(it.app.status().actors, key=lambda actor: actor.actor_id)
        assert first.node_id != second.node_id
        assert standbys(it.app.status()) == {first.actor_id: tasks(second), second.actor_id: tasks(first)}
        say("two nodes, an actor on each, with standbys of the other's stores")
        _lose(cluster, it, first, second)
        total = sum(it.sent.values())
        eventually(lambda: it.processed() == total, "all counted after the loss")
        hosted = {str(task): actor for task, actor in it.app.status().placement.items()}
        assert {hosted[task] for task in tasks(first)} == {second.actor_id}
        assert dict(it.app.store("counts").all()) == it.sent
        assert it.is_exact()
        say(f"{sum(it.sent.values()):,} records, each counted once")


def _lose(cluster: Any, it: SlowCount, lost: ActorStatus, other: ActorStatus) -> None:
    (node,) = (node for node in cluster.worker_nodes if node.node_id == lost.node_id)
    with it.fed(), committed_results(it) as results:
        eventually(lambda: len(results) > 10, "results come")
        process = psutil.Process(lost.pid)
        process.suspend()  # most likely within a transaction
        cluster.remove_node(node, allow_graceful=False)
        killed_s = time.monotonic()
        with suppress(psutil.NoSuchProcess):  # also if the number is another's by now
            process.kill()
        shows_s = seconds_until(lambda: lost.actor_id not in running(it), killed_s)
        moved_s = seconds_until(lambda: set(it.app.status().placement.values()) == {other.actor_id}, killed_s)
        eventually(lambda: results[-1] > killed_s + moved_s + 1, "results come again")
    silent_s = max(later - earlier for earlier, later in pairwise(results))
    say(f"the node is gone: this shows after {shows_s:.1f} s, {other.actor_id} has its tasks after {moved_s:.1f} s")
    say(f"a reader of committed results, of all tasks in one partition, waited {silent_s:.1f} s for the next at most")
    assert shows_s < 10, "Ray itself takes longer"


def running(it: SlowCount) -> set[str]:
    """Returns the actors, if the application is RUNNING; otherwise none."""
    status = it.app.status()
    return set() if status.state is not ApplicationState.RUNNING else {actor.actor_id for actor in status.actors}


def seconds_until(condition: Callable[[], bool], since_s: float) -> float:
    """Waits for ``condition``; returns the seconds since ``since_s``."""
    eventually(condition, "the loss is noticed", look_each_s=0.02)
    return time.monotonic() - since_s


@contextmanager
def committed_results(it: SlowCount) -> Iterator[list[float]]:
    """Reads the output, which has one partition for all tasks; yields the times at which committed results came."""
    times: list[float] = []
    ending = threading.Event()

    def read() -> None:
        consumer = it.clients.consumer()
        here = TopicPartition(it.output, 0)
        consumer.assign({here: consumer.fetch_end_offsets([here])[here]})
        while not ending.is_set():
            if any(batch.values for batch in consumer.poll(1000, 0.05)):
                times.append(time.monotonic())
        consumer.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield times
    finally:
        ending.set()
        thread.join()


def tasks(actor: ActorStatus) -> set[str]:
    return {str(task.task_id) for task in actor.tasks}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
