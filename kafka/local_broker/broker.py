"""A real Apache Kafka on this machine, for development, demonstrations and tests: one KRaft node, or three.

All its files are in one directory: ``broker.json`` (the nodes, their ports and process ids), ``lock``, and per node
``node-<id>/`` with configuration, data and logs. It listens only on the loopback address.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from filelock import FileLock

from penstock.common.errors import LocalBrokerError
from penstock.common.files import write_whole
from penstock.kafka.local_broker.jars import broker_jars
from penstock.kafka.local_broker.java import find_java
from penstock.kafka.local_broker.node_files import (
    DEFAULT_PORT,
    HOST,
    Listener,
    NodeAddress,
    NodeFiles,
    write_node_files,
)
from penstock.kafka.local_broker.node_process import await_end, format_node, is_node, start_node, stop_node

_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 20.0
_KILL_TIMEOUT_S = 5.0
_POLL_S = 0.05
_HEAP_MB = {1: 512, 3: 256}


@dataclass(frozen=True)
class Node:
    """One node as ``broker.json`` has it; ``pid`` is None if it was stopped."""

    address: NodeAddress
    pid: int | None = None


@dataclass(frozen=True)
class BrokerStatus:
    """The state of the broker of a directory. ``notes``: messages about what ``start`` found and repaired."""

    directory: Path
    bootstrap_servers: str
    nodes: tuple[Node, ...]
    alive: frozenset[int]
    notes: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        """True if every node's process lives."""
        return bool(self.nodes) and len(self.alive) == len(self.nodes)


class LocalBroker:
    """The broker of a directory. Several may run at the same time, in directories of their own.

    ``port`` is where clients connect (three nodes also take the two ports after it); 0 takes a free one. ``nodes`` is 1
    or 3. ``listeners`` are more addresses where each node listens, such as one where clients must authenticate, or one
    behind a proxy. ``properties`` are settings of Kafka that replace the usual ones. Only ``start`` uses all of these.
    As a context manager it is started, and stopped at the end.
    """

    def __init__(
        self,
        directory: Path,
        port: int = DEFAULT_PORT,
        nodes: int = 1,
        listeners: Sequence[Listener] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if nodes not in _HEAP_MB:
            raise LocalBrokerError(f"A local broker has 1 node or 3, not {nodes}.")
        self.directory = directory.expanduser().absolute()
        self._port = port
        self._node_count = nodes
        self._listeners = tuple(listeners)
        self._properties = dict(properties or {})
        # Kept so that the nodes are reaped if they end before this process.
        self._children: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> BrokerStatus:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def status(self) -> BrokerStatus:
        """Returns the nodes of the directory, and the ids of those whose processes live. Asks no broker."""
        nodes = self._read()
        alive = frozenset(
            n.address.node_id for n in nodes if n.pid is not None and is_node(n.pid, self._files(n.address))
        )
        bootstrap_servers = ",".join(f"{HOST}:{n.address.port}" for n in nodes)
        return BrokerStatus(self.directory, bootstrap_servers, nodes, alive)

    def start(self) -> BrokerStatus:
        """Start the nodes that do not run and return when every node answers. The first start fetches missing jars.

        Raises LocalBrokerError when all nodes run already, a port is in use, Java is missing, or Kafka does not start:
        then all that was started is stopped again.
        """
        with self._lock():
            before = self.status()
            if before.running:
                raise LocalBrokerError(f"The broker of {self.directory} runs already, at {before.bootstrap_servers}.")
            nodes = before.nodes if before.alive else self._lay_out(before.nodes)
            missing = [n.address for n in nodes if n.address.node_id not in before.alive]
            for address in missing:
                for port in (address.port, *(each.of_node(address.node_id).port for each in self._listeners)):
                    _require_free(port)
            self._launch(nodes, missing)
            return replace(self.status(), notes=_stale_notes(before))

    def stop(self) -> bool:
        """Stop every node; kill those that have not ended after 20 s. Returns False if none was running. The data
        remains."""
        with self._lock():
            before = self.status()
            self._stop([n for n in before.nodes if n.address.node_id in before.alive])
            if before.nodes:
                self._write(tuple(replace(n, pid=None) for n in before.nodes))
            return bool(before.alive)

    def _launch(self, nodes: tuple[Node, ...], missing: Sequence[NodeAddress]) -> None:
        """Prepare and start the missing nodes and wait until all answer; on failure, stop those that were started."""
        java = find_java()
        jars = broker_jars()
        cluster_id = self._cluster_id()
        for address in missing:
            files = self._files(address)
            write_node_files(files, address, [n.address for n in nodes], self._listeners, self._properties)
            if not (files.data / "meta.properties").exists():
                format_node(java, jars, files, cluster_id)
        try:
            for address in missing:
                child = start_node(java, jars, self._files(address), _HEAP_MB[len(nodes)])
                self._children.append(child)
                nodes = tuple(replace(n, pid=child.pid) if n.address == address else n for n in nodes)
                self._write(nodes)
            self._await_answer(nodes)
        except BaseException:
            self._stop([n for n in nodes if n.address in missing])
            self._write([replace(n, pid=None) if n.address in missing else n for n in nodes])
            raise

    def _stop(self, nodes: Sequence[Node]) -> None:
        running = {n.pid: self._files(n.address) for n in nodes if n.pid is not None}
        for pid, files in running.items():
            stop_node(pid, files, gracefully=True)
        running = await_end(running, _STOP_TIMEOUT_S)
        for pid, files in running.items():
            stop_node(pid, files, gracefully=False)
        immortal = await_end(running, _KILL_TIMEOUT_S)
        self._children = [child for child in self._children if child.poll() is None]
        if immortal:
            raise LocalBrokerError(f"The broker's processes {sorted(immortal)} did not end, although they were killed.")

    def _lay_out(self, known: tuple[Node, ...]) -> tuple[Node, ...]:
        """Returns the nodes to start when none lives: with new ports, and as many as the directory has."""
        if known and len(known) != self._node_count:
            raise LocalBrokerError(
                f"{self.directory} holds a broker of {len(known)} node(s), not {self._node_count}: "
                "start it with that number, or give another directory."
            )
        first = self._port or free_port(self._node_count)
        if known and not self._port and all(_is_free(n.address.port) for n in known):
            first = known[0].address.port
        ports = range(first, first + self._node_count)
        # No client uses the controllers' ports: always free ones.
        return tuple(
            Node(NodeAddress(number, port, free_port(avoid=ports))) for number, port in enumerate(ports, start=1)
        )

    def _await_answer(self, nodes: tuple[Node, ...]) -> None:
        """Wait until each node's metadata names all nodes. Raises as soon as one has ended."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        for node in nodes:
            while not _answers(node.address.port, len(nodes)):
                for other in nodes:
                    if other.pid is None or not is_node(other.pid, self._files(other.address)):
                        raise LocalBrokerError(_why_ended(self._files(other.address), other.address))
                if time.monotonic() > deadline:
                    raise LocalBrokerError(
                        f"The broker at {HOST}:{node.address.port} does not answer within {_START_TIMEOUT_S:.0f} s: "
                        f"see {self._files(node.address).log}."
                    )
                time.sleep(_POLL_S)

    def _files(self, address: NodeAddress) -> NodeFiles:
        return NodeFiles(self.directory / f"node-{address.node_id}")

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with FileLock(self.directory / "lock"):
            yield

    def _cluster_id(self) -> str:
        """Returns the cluster's id, which the first call makes."""
        file = self.directory / "cluster-id"
        if not file.exists():
            write_whole(file, new_cluster_id())
        return file.read_text()

    def _read(self) -> tuple[Node, ...]:
        file = self.directory / "broker.json"
        if not file.exists():
            return ()
        return tuple(Node(NodeAddress(**node["address"]), node["pid"]) for node in json.loads(file.read_text()))

    def _write(self, nodes: Sequence[Node]) -> None:
        write_whole(self.directory / "broker.json", json.dumps([asdict(node) for node in nodes], indent=1))


def new_cluster_id() -> str:
    """Returns 16 random bytes in base64 without padding and without a leading dash, which Kafka's tools take for an
    option."""
    while True:
        drawn = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not drawn.startswith("-"):
            return drawn


def free_port(count: int = 1, avoid: Sequence[int] = ()) -> int:
    """Returns the first of ``count`` consecutive unused ports on the loopback address.

    They are below the range that the system uses for outgoing connections, so they remain free until they are used.
    """
    chooser = random.SystemRandom()
    while True:
        first = chooser.randrange(15_000, 32_000)
        ports = range(first, first + count)
        if not set(ports) & set(avoid) and all(_is_free(port) for port in ports):
            return first


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _require_free(port: int) -> None:
    if not _is_free(port):
        raise LocalBrokerError(
            f"Port {port} on {HOST} is in use by another process: stop that, or start the broker with another --port."
        )


def _answers(port: int, nodes: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
        client = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
        return len(client.list_topics(timeout=2).brokers) == nodes
    except (OSError, KafkaException):
        return False


def _stale_notes(before: BrokerStatus) -> tuple[str, ...]:
    return tuple(
        f"Node {n.address.node_id} (process {n.pid}) had ended without being stopped; it is started again."
        for n in before.nodes
        if n.pid is not None and n.address.node_id not in before.alive
    )


def _why_ended(files: NodeFiles, address: NodeAddress) -> str:
    lines: list[str] = []
    for file in (files.console, files.log):
        if file.exists():
            lines += file.read_text(errors="replace").splitlines()[-200:]
    causes = [line.strip() for line in lines if "Caused by:" in line or "Exception: " in line or "Error: " in line]
    reason = causes[-1] if causes else "it gave no reason"
    return f"The broker on port {address.port} ended while it was starting: {reason} (see {files.log})."
