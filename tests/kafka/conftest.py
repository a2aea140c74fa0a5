"""Every form of each Kafka client: on the fake broker, and on a real one by confluent-kafka and by our own binding."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.topics import NewTopic
from penstock.kafka.binding import binding
from penstock.kafka.clients import ConfluentClients, KafkaClients
from penstock.testing.fake_clients import FakeClients
from tests import waiting


@dataclass(frozen=True)
class Rig:
    """The clients of one application with a group of its own, and a maker of topics."""

    clients: KafkaClients
    group: str

    def topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic; ``max_message_bytes`` means ``max.message.bytes``."""
        name = f"t-{uuid.uuid4().hex[:10]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.clients.admin().create_topics([NewTopic(name, partitions, config=settings)])
        return name


@pytest.fixture(params=["fake", "confluent", "compiled"])
def rig(request: pytest.FixtureRequest) -> Rig:
    group = f"g-{uuid.uuid4().hex[:10]}"
    if request.param == "fake":
        return Rig(FakeClients(group), group)
    return real_rig(request, group)


@pytest.fixture(params=["confluent", "compiled"])
def real(request: pytest.FixtureRequest) -> Rig:
    """Without the fake broker, for what only librdkafka knows."""
    return real_rig(request, f"g-{uuid.uuid4().hex[:10]}")


def real_rig(request: pytest.FixtureRequest, group: str) -> Rig:
    """On a real broker, by the form that the fixture's parameter names."""
    if request.param == "confluent":
        monkeypatch = request.getfixturevalue("monkeypatch")
        for module in ("fetcher", "producer", "transactions"):
            monkeypatch.setattr(f"penstock.kafka.{module}.binding", lambda: None)
    elif binding() is None:
        pytest.skip("penstock's binding to librdkafka was not built here")
    config = StreamsConfig.of(
        {
            "application.id": group,
            "bootstrap.servers": request.getfixturevalue("broker"),
            "producer.transaction.timeout.ms": 60_000,  # a process may be stopped for seconds in the midst of one
        }
    )
    return Rig(ConfluentClients.of(config), group)


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool], str], None]:
    """Calls a condition, which does the waiting itself, until it holds or 60 s have passed."""
    return partial(waiting.eventually, timeout_s=60, look_each_s=0)
