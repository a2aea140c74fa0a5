"""A prepared application: its topology, its topics, and the records that it gets, without an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.api.kafka_streams import KafkaStreams
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.topology.physical.topology import Topology

PARTITIONS = 4
_EACH_S = 0.05

Record = tuple[bytes, bytes]
"""Key and value."""


@dataclass(frozen=True)
class Prepared:
    """``topic`` gets ``per_s`` records per second: ``record`` makes each out of its number."""

    name: str
    topology: Callable[[], Topology]
    topics: tuple[NewTopic, ...]
    topic: str
    record: Callable[[int], Record]
    per_s: int
    brokers: int = 1

    @contextmanager
    def running(self, bootstrap_servers: str, state: Path, **more: Any) -> Iterator[KafkaStreams]:
        """Runs the application on the Ray of this process, and gives it records. ``more``: entries of its
        configuration."""
        clients = ConfluentClients(bootstrap_servers, self.name)
        clients.admin().create_topics(self.topics)
        config = {
            "application.id": self.name,
            "bootstrap.servers": bootstrap_servers,
            "state.dir": state,
            "application.server": "127.0.0.1:0",
            "tasks.per.actor": PARTITIONS,
            **more,
        }
        app = KafkaStreams(self.topology(), config)
        app.start()
        try:
            with self._loaded(clients):
                yield app
        finally:
            app.close(60)

    @contextmanager
    def _loaded(self, clients: ConfluentClients) -> Iterator[None]:
        ended = threading.Event()
        sender = threading.Thread(target=self._send, args=(clients, ended), name="load")
        sender.start()
        try:
            yield
        finally:
            ended.set()
            sender.join()

    def _send(self, clients: ConfluentClients, ended: threading.Event) -> None:
        with closing(clients.producer()) as producer:
            begun, sent = time.monotonic(), 0
            while not ended.wait(_EACH_S):
                due = int((time.monotonic() - begun) * self.per_s)
                for number in range(sent, due):
                    producer.send(self.topic, *self.record(number), time.time_ns() // 1_000_000)
                sent = due
                producer.poll()
                producer.take_refused()  # of a broker that is away: the others go on
