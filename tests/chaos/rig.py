"""Where the kill test happens: a broker of its own, a Ray of its own, the application, and its processes by role."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

import penstock as ps
from penstock.cluster.names import NAMESPACE
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from penstock.kafka.local_broker.broker import LocalBroker, free_port
from tests.chaos import program

APPLICATION = "chaos"
_ACTORS = 3
_COMMIT_INTERVAL_MS = 1000
_CLOSE_S = 120.0
_STORE_BYTES = 100_000_000


class Guarantee(Enum):
    """``processing.guarantee``."""

    AT_LEAST = "at_least_once"
    EXACTLY = "exactly_once_v2"


class Role(Enum):
    """A kind of process, by the title that Ray gives it."""

    STREAM_ACTOR = "ray::StreamActor"
    COORDINATOR = "ray::CoordinatorActor"
    HTTP_ACTOR = "ray::HttpActor"


@dataclass(frozen=True)
class Rig:
    """All that a run holds. ``folder`` has the broker's files and the state; Ray's logs are in ``ray_logs``."""

    folder: Path
    ray_logs: Path
    broker: LocalBroker
    clients: ConfluentClients
    app: ps.KafkaStreams
    http_port: int
    cluster: Any
    """Ray's, when it has several nodes."""

    def processes(self, role: Role) -> list[psutil.Process]:
        """The living processes of a role, oldest first."""
        found = []
        for process in psutil.Process().children(recursive=True):
            try:
                if (process.cmdline() or [""])[0].startswith(role.value):
                    found.append((process.create_time(), process))
            except psutil.Error:
                continue  # it has ended meanwhile
        return [process for _, process in sorted(found, key=lambda it: it[0])]

    def lose_node(self, pick: int) -> str:
        """End all processes of a node that has stream actors' CPUs; its id. Ray finds that out by itself."""
        nodes = sorted(self.cluster.worker_nodes, key=lambda node: node.node_id)
        node = nodes[pick % len(nodes)]
        self.cluster.remove_node(node, allow_graceful=False)
        return str(node.node_id)

    def add_node(self) -> None:
        """Another node for a stream actor."""
        self.cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES)
        _end_in_good_order_when_told_to()  # Ray has put its own handler in the place of ours

    def start(self) -> None:
        """Start the application and its HTTP server."""
        self.app.start()
        self.app.wait_until_running()

    def close(self) -> bool:
        """Whether the application commits and ends in good order."""
        return self.app.close(_CLOSE_S)

    def ends(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Of every partition the last stable offset, and the high watermark."""
        admin = self.clients.admin()
        partitions = [TopicPartition(name, each) for name, count in admin.topics().items() for each in range(count)]
        return admin.end_offsets(partitions), admin.high_watermarks(partitions)

    def read(self, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
        """Keys and values of a whole topic, in order within each partition."""
        partitions = [TopicPartition(topic, number) for number in range(program.PARTITIONS)]
        consumer = self.clients.consumer()
        ends = consumer.fetch_end_offsets(partitions)
        left = {at for at in partitions if ends[at]}
        consumer.assign(dict.fromkeys(left, BEGINNING))
        while left:
            for batch in consumer.poll(10_000, 0.5):
                for key, value in zip(batch.keys, batch.values, strict=True):
                    assert key is not None
                    yield key, value
            left = {at for at in left if consumer.position(at) < ends[at]}
        consumer.close()


def _end_in_good_order_when_told_to() -> None:
    """SIGTERM is like Ctrl-C: the broker, which outlives this process otherwise, is stopped."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def rig(guarantee: Guarantee, brokers: int, nodes: int) -> Iterator[Rig]:
    """A rig with its topics; at the end the application, Ray and the broker are ended. The folder stays. ``nodes``: of
    Ray, with a stream actor on each; or one for all of them."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
    port, http_port = free_port(3), free_port()
    _end_in_good_order_when_told_to()
    with ExitStack() as stack:
        broker = LocalBroker(folder / "broker", port, brokers)
        stack.callback(broker.stop)
        address = broker.start().bootstrap_servers
        # Ray's workers import this package, however the test was started.
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        cluster = stack.enter_context(_ray_cluster(nodes)) if nodes > 1 else None
        stack.callback(ray.shutdown)
        of_its_own: dict[str, Any] = {} if cluster else {"num_cpus": _ACTORS, "object_store_memory": _STORE_BYTES}
        context: Any = ray.init(
            cluster.address if cluster else "local", namespace=NAMESPACE, include_dashboard=False,
            log_to_driver=False, logging_level=logging.ERROR, **of_its_own,
        )  # fmt: skip
        _end_in_good_order_when_told_to()  # again: Ray has put its own handler in the place of ours
        clients = ConfluentClients(address, APPLICATION, {"isolation.level": "read_committed"})
        topics = [NewTopic(name, program.PARTITIONS) for name in (program.INPUT, program.OUTPUT)]
        clients.admin().create_topics(topics)
        app = ps.KafkaStreams(
            program.topology(),
            {
                "application.id": APPLICATION,
                "bootstrap.servers": address,
                "state.dir": folder / "state",
                "commit.interval.ms": _COMMIT_INTERVAL_MS,
                "processing.guarantee": guarantee.value,
                "num.standby.replicas": 1,
                "application.server": f"127.0.0.1:{http_port}",
                "repartition.purge.interval.ms": 86_400_000,  # the topic is read at the end, whole
            },
        )
        logs = Path(context.address_info["session_dir"]) / "logs"
        yield Rig(folder, logs, broker, clients, app, http_port, cluster)


@contextmanager
def _ray_cluster(nodes: int) -> Iterator[Any]:
    cluster: Any = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": _STORE_BYTES, "include_dashboard": False},
    )
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES)
        yield cluster
    finally:
        cluster.shutdown()
