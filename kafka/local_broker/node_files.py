"""Writes the files with which a node of the local broker is started: server.properties and the logging
configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

HOST = "127.0.0.1"
DEFAULT_PORT = 9092


@dataclass(frozen=True)
class NodeAddress:
    """One node: its id (from 1), the port for clients, and the port of the controller quorum."""

    node_id: int
    port: int
    controller_port: int


@dataclass(frozen=True)
class Listener:
    """Another port where the node listens, and its protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.

    ``properties`` are Kafka's settings of one listener: ``ssl.client.auth``, ``scram-sha-256.sasl.jaas.config``.
    Clients are sent to ``advertised_port``, if there is a proxy there for ``port``. The second and third of three nodes
    have the ports after these.
    """

    name: str
    port: int
    protocol: str
    properties: Mapping[str, str] = field(default_factory=dict)
    advertised_port: int | None = None

    def of_node(self, node_id: int) -> Listener:
        """Returns this listener for node ``node_id`` of several."""
        advertised = None if self.advertised_port is None else self.advertised_port + node_id - 1
        return replace(self, port=self.port + node_id - 1, advertised_port=advertised)


@dataclass(frozen=True)
class NodeFiles:
    """The paths of the files of one node, below the broker's directory."""

    folder: Path

    @property
    def properties(self) -> Path:
        """Its configuration."""
        return self.folder / "server.properties"

    @property
    def logging(self) -> Path:
        """The configuration of log4j."""
        return self.folder / "log4j2.properties"

    @property
    def data(self) -> Path:
        """The folder of its partitions."""
        return self.folder / "data"

    @property
    def console(self) -> Path:
        """Output of the Java process itself: empty, unless it cannot start."""
        return self.folder / "console.log"

    @property
    def log(self) -> Path:
        """Kafka's log."""
        return self.folder / "server.log"


def write_node_files(
    files: NodeFiles,
    address: NodeAddress,
    quorum: Sequence[NodeAddress],
    listeners: Sequence[Listener] = (),
    overrides: Mapping[str, str] | None = None,
) -> None:
    """Write both configuration files, creating the folder."""
    files.folder.mkdir(parents=True, exist_ok=True)
    here = [each.of_node(address.node_id) for each in listeners]
    properties = with_listeners(server_properties(address, quorum, files.data), here) | dict(overrides or {})
    files.properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    files.logging.write_text(_LOGGING.format(log=_escape(files.log)))


def server_properties(address: NodeAddress, quorum: Sequence[NodeAddress], data: Path) -> Mapping[str, str]:
    """Returns a node's configuration: Kafka's defaults, except those that make a broker local, small and fast to
    answer."""
    nodes = len(quorum)
    safe = min(nodes, 2)
    return {
        "process.roles": "broker,controller",
        "node.id": str(address.node_id),
        "controller.quorum.voters": ",".join(f"{n.node_id}@{HOST}:{n.controller_port}" for n in quorum),
        "listeners": f"CLIENT://{HOST}:{address.port},CONTROLLER://{HOST}:{address.controller_port}",
        "advertised.listeners": f"CLIENT://{HOST}:{address.port}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": _escape(data),
        # A program with a wrong topic name must get an error.
        "auto.create.topics.enable": "false",
        # Example data often has old timestamps, for which Kafka would delete it within minutes.
        "log.retention.ms": "-1",
        "default.replication.factor": str(nodes),
        "min.insync.replicas": str(safe),
        "offsets.topic.replication.factor": str(nodes),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(nodes),
        "transaction.state.log.min.isr": str(safe),
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": str(nodes),
        "share.coordinator.state.topic.min.isr": str(safe),
        "share.coordinator.state.topic.num.partitions": "1",
        # One developer's group is complete as soon as its member has joined.
        "group.initial.rebalance.delay.ms": "0",
        # Dead members must be detected in seconds: 6 s is the minimum of a classic group.
        "group.min.session.timeout.ms": "6000",
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        # The default, 128 MB, would be allocated at the start, from a small heap.
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
        "num.network.threads": "2",
        "num.io.threads": "4",
    }


def with_listeners(properties: Mapping[str, str], listeners: Sequence[Listener]) -> dict[str, str]:
    """Returns the configuration with more listeners. A client that connects to one of them learns of only that one."""
    found = dict(properties)
    for each in listeners:
        for key, port in (("listeners", each.port), ("advertised.listeners", each.advertised_port or each.port)):
            found[key] += f",{each.name}://{HOST}:{port}"
        found["listener.security.protocol.map"] += f",{each.name}:{each.protocol}"
        found |= {f"listener.name.{each.name.lower()}.{key}": value for key, value in each.properties.items()}
    return found


def _escape(path: Path) -> str:
    # A backslash begins an escape in Java's properties files.
    return str(path).replace("\\", "\\\\")


_LOGGING = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %m (%c)%n
appender.file.policy.type = SizeBasedTriggeringPolicy
appender.file.policy.size = 10 MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""
