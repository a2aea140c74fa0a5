"""An application on either side, for what kills one or waits for its results: ``failover.py`` and ``latency.py``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.baseline import Jdk
from benchmarks.deployment import Deployment, Setting, source_of
from benchmarks.java_deployment import java_deployment
from benchmarks.penstock_deployment import penstock_deployment
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients


def clients_of(address: str, guarantee: str) -> ConfluentClients:
    """Returns the clients that send the input, and read the results as soon as they count."""
    isolation = {"isolation.level": "read_committed"} if guarantee == "exactly_once_v2" else {}
    return ConfluentClients(address, "benchmarks", isolation)


def create_topics(clients: ConfluentClients, output: str, partitions: int) -> None:
    """Create the topics of the application with this ``output``."""
    clients.admin().create_topics([NewTopic(name, partitions) for name in (source_of(output), output)])


@contextmanager
def deployed(
    work: Path,
    address: str,
    setting: Setting,
    output: str,
    jdk: Jdk | None,
    settings: Mapping[str, str],
    lose_disk: bool = False,
) -> Iterator[Deployment]:
    """Kafka Streams where there is a ``jdk``, else penstock."""
    if jdk is None:
        with penstock_deployment(work, address, setting, output, lose_disk) as ours:
            yield ours
    else:
        with java_deployment(jdk, work, address, setting, output, settings) as theirs:
            yield theirs
