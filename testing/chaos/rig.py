"""The surroundings of a run: a broker of its own, a Ray of its own, the application, and its processes by role."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

from penstock.api.kafka_streams import KafkaStreams
from penstock.cluster.names import NAMESPACE
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.local_broker.broker import LocalBroker, free_port
from penstock.testing.chaos.http_client import OK, UNAVAILABLE, Answer, HttpClient, NotAnsweredError
from penstock.testing.chaos.network import Network, listener, network
from penstock.testing.chaos.program import Guarantee, Program
from penstock.testing.chaos.rays_lines import leave_out_rays_lines
from penstock.testing.whole_topics import whole
from penstock.topology.physical.task_plan import TaskPlan
from penstock.topology.physical.topic_plan import plan_topics

APPLICATION = "chaos"
TRANSACTION_TIMEOUT_S = 10.0
_ACTORS = 3
_COMMIT_INTERVAL_MS = 1000
_MESSAGE_TIMEOUT_MS = 30_000
"""At least once; so what a producer is given is delivered or given up within the time in which rest must come."""
_INPUT_TIMEOUT_MS = 600_000
"""The input waits for brokers that are down again and again, and slow to start."""
_START_S = 300.0
_CLOSE_S = 120.0
_STORE_BYTES = 100_000_000
_PAGE = 10_000
_HTTP_S = 30.0
_LOOK_EACH_S = 0.2
# A node that is silent is given up after some 16 s, in place of a minute.
_NODES_GIVEN_UP = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "4",
}
_NO_ROOM = ("File too large", "No space left")


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
    app: KafkaStreams
    http_port: int
    cluster: Any
    """Ray's, when it has several nodes."""
    guarantee: Guarantee
    network: Network | None
    """The network by which the application reaches the broker, if that is troubled. The harness connects directly."""
    given_up: list[Callable[[], None]] = field(default_factory=list)
    """Each ends what is left of a node that is taken for dead."""

    def processes(self, role: Role) -> list[psutil.Process]:
        """Returns the living processes of a role, oldest first."""
        found = []
        for process in psutil.Process().children(recursive=True):
            try:
                if (process.cmdline() or [""])[0].startswith(role.value):
                    found.append((process.create_time(), process))
            except psutil.Error:
                continue  # it has ended meanwhile
        return [process for _, process in sorted(found, key=lambda it: it[0])]

    @cached_property
    def plan(self) -> TaskPlan:
        """The tasks of the application."""
        return plan_topics(self.app.topology, self.app.config, self.clients.admin().topics()).tasks

    @property
    def state_dir(self) -> Path:
        """The directory in which its tasks keep their stores, all nodes together."""
        return self.app.config.state_dir / APPLICATION

    def lose_node(self, pick: int) -> str:
        """End all processes of a node that has stream actors' CPUs. Returns its id. Ray finds that out by itself."""
        node = self._worker_node(pick)
        workers = psutil.Process(_raylet_pid(node)).children(recursive=True)
        self.cluster.remove_node(node, allow_graceful=False)
        _end(workers)  # they are no children of ours: else they would end by themselves, and a moment later
        return str(node.node_id)

    def raylet(self, pick: int) -> psutil.Process:
        """Returns the raylet of a node that has stream actors' CPUs."""
        return psutil.Process(_raylet_pid(self._worker_node(pick)))

    def lose_raylet(self, raylet: psutil.Process) -> None:
        """``kill -9`` it alone: all others of the node's processes end by themselves."""
        raylet.kill()
        self.cluster.remove_node(self._node_of(raylet), allow_graceful=False)

    def give_up(self, raylet: psutil.Process) -> Callable[[], None]:
        """Take the node out of the cluster, but leave its processes running until the returned function is called."""
        node = self._node_of(raylet)
        self.cluster.worker_nodes.remove(node)

        def end() -> None:
            node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)

        self.given_up.append(end)
        return end

    def _node_of(self, raylet: psutil.Process) -> Any:
        (node,) = (node for node in self.cluster.worker_nodes if _raylet_pid(node) == raylet.pid)
        return node

    def add_node(self) -> None:
        """Add another node for a stream actor."""
        self.cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES)
        _end_in_order_on_sigterm()  # Ray has put its own handler in the place of ours

    def _worker_node(self, pick: int) -> Any:
        nodes = sorted(self.cluster.worker_nodes, key=lambda node: node.node_id)
        return nodes[pick % len(nodes)]

    def start(self) -> None:
        """Start the application and its HTTP server."""
        self.app.start()
        self.app.wait_until_running(_START_S)

    def close(self) -> bool:
        """Close the application. Returns True if it commits and ends cleanly."""
        return self.app.close(_CLOSE_S)

    def ends(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Returns the last stable offset of every partition, and the high watermark that it had just before."""
        admin = self.clients.admin()
        partitions = [TopicPartition(name, each) for name, count in admin.topics().items() for each in range(count)]
        high = admin.high_watermarks(partitions)
        return admin.end_offsets(partitions), high

    def internal(self, name: str) -> str:
        """Returns the full name of an internal topic."""
        return f"{APPLICATION}-{name}"

    def read(self, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields keys and values of a whole topic, committed ones alone, in order within each partition."""
        partitions = [TopicPartition(topic, number) for number in range(self.clients.admin().topics()[topic])]
        for batch in whole(self.clients, partitions):
            for key, value in zip(batch.keys, batch.values, strict=True):
                assert key is not None
                yield key, value

    def _answer(self, client: HttpClient, store: str, query: Mapping[str, str | int]) -> Answer:
        """Returns one page. A server that has just lost its node comes again in a moment, so it asks again."""
        deadline = time.monotonic() + _HTTP_S
        while True:
            try:
                answer = client.get("v1", "applications", APPLICATION, "stores", store, "range", **query)
                if answer.status != UNAVAILABLE or time.monotonic() > deadline:
                    return answer
            except NotAnsweredError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_EACH_S)

    def rows(self, store: str) -> Mapping[Any, Any]:
        """Returns a key-value store's committed rows, asked for over HTTP."""
        found: dict[Any, Any] = {}
        query: dict[str, str | int] = {"limit": _PAGE, "isolation": "committed"}
        with HttpClient(self.http_port, _HTTP_S) as client:
            while True:
                answer = self._answer(client, store, query)
                if answer.status != OK:
                    raise RuntimeError(f"the rows of {store} were answered by {answer.status}: {answer.body}")
                found.update((entry["key"], entry["value"]) for entry in answer.body["entries"])
                if answer.body["cursor"] is None:
                    return found
                query["cursor"] = answer.body["cursor"]


def _raylet_pid(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def _end_in_order_on_sigterm() -> None:
    """SIGTERM is like Ctrl-C: the broker, which outlives this process otherwise, is stopped."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def without_room(exception: BaseException) -> UncaughtExceptionResponse:
    """The uncaught exception handler: an actor without room on the disk is replaced, anything else ends the run."""
    if any(text in str(exception) for text in _NO_ROOM):
        return UncaughtExceptionResponse.REPLACE_ACTOR
    return UncaughtExceptionResponse.SHUTDOWN_CLIENT


@contextmanager
def rig(
    folder: Path, program: Program, guarantee: Guarantee, brokers: int, nodes: int, proxied: int | None
) -> Iterator[Rig]:
    """Yields a rig with its topics; at the end application, Ray and broker are ended. ``folder`` stays. ``nodes``: of
    Ray, with a stream actor on each; or one for all of them. ``proxied``: with proxies, and their seed."""
    port, http_port = free_port(3 * brokers), free_port()
    _end_in_order_on_sigterm()
    with ExitStack() as stack:
        inner = port + brokers
        broker = LocalBroker(
            folder / "broker", port, brokers, [listener(inner, brokers)] if proxied is not None else []
        )
        stack.callback(broker.stop)
        address = broker.start().bootstrap_servers
        proxies = stack.enter_context(network(inner, brokers, proxied)) if proxied is not None else None
        # Ray's workers import what is imported here, however this process was started.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH"))))
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        cluster = stack.enter_context(_ray_cluster(nodes)) if nodes > 1 else None
        stack.callback(ray.shutdown)
        leave_out_rays_lines()
        of_its_own: dict[str, Any] = {} if cluster else {"num_cpus": _ACTORS, "object_store_memory": _STORE_BYTES}
        context: Any = ray.init(
            cluster.address if cluster else "local", namespace=NAMESPACE, include_dashboard=False,
            log_to_driver=False, logging_level=logging.ERROR, **of_its_own,
        )  # fmt: skip
        _end_in_order_on_sigterm()  # again: Ray has put its own handler in the place of ours
        clients = ConfluentClients(
            address,
            APPLICATION,
            consumer_overrides={"isolation.level": "read_committed"},
            producer_overrides={"message.timeout.ms": _INPUT_TIMEOUT_MS},
        )
        clients.admin().create_topics([NewTopic(name, count) for name, count in program.topics.items()])
        app = KafkaStreams(
            program.topology(),
            _config(program, guarantee, proxies.bootstrap_servers if proxies else address, folder, http_port),
        )
        app.set_uncaught_exception_handler(without_room)
        logs = Path(context.address_info["session_dir"]) / "logs"
        it = Rig(folder, logs, broker, clients, app, http_port, cluster, guarantee, proxies)
        yield it


def _config(program: Program, guarantee: Guarantee, address: str, folder: Path, http_port: int) -> dict[str, Any]:
    exactly = {"producer.transaction.timeout.ms": int(TRANSACTION_TIMEOUT_S * 1000)}
    at_least = {"producer.message.timeout.ms": _MESSAGE_TIMEOUT_MS}
    return {
        "commit.interval.ms": _COMMIT_INTERVAL_MS,
        **(exactly if guarantee is Guarantee.EXACTLY else at_least),
        **program.config,
        "application.id": APPLICATION,
        "bootstrap.servers": address,
        "state.dir": folder / "state",
        "processing.guarantee": guarantee.value,
        "num.standby.replicas": 1,
        "application.server": f"127.0.0.1:{http_port}",
        "repartition.purge.interval.ms": 86_400_000,  # these topics are read at the end, whole
        "state.cleanup.delay.ms": 86_400_000,
    }


def _end(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@contextmanager
def _ray_cluster(nodes: int) -> Iterator[Any]:
    os.environ.update(_NODES_GIVEN_UP)
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
