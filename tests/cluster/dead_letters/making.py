"""Dead letters for tests: as penstock and Kafka Streams write them, on the fake broker."""

from __future__ import annotations

from penstock.cluster.dead_letters.letters import Letter
from penstock.common.dead_letters import ERROR_HEADERS
from penstock.common.records import Header
from penstock.common.topics import NewTopic
from penstock.testing.fake_broker import FakeBroker, FakeRecord
from penstock.testing.fake_clients import FakeClients

DLQ = "orders-dlq"


def error_headers(
    topic: str | None = "orders",
    partition: int = 0,
    offset: int = 7,
    exception: str = "builtins.ValueError",
    message: str | None = "no number: 'x1'",
    trace: str = "Traceback …\n  line 1",
) -> list[Header]:
    """Returns the six headers of an error, in their order."""
    values = exception, message, trace, topic, str(partition), str(offset)
    return [
        (name, None if value is None else value.encode()) for name, value in zip(ERROR_HEADERS, values, strict=True)
    ]


def letter(
    place: tuple[int, int] = (0, 0),
    headers: list[Header] | None = None,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    timestamp: int = 1000,
) -> Letter:
    """Returns a letter, with the headers of an error unless others are given."""
    return Letter(*place, key, value, timestamp, error_headers() if headers is None else headers)


class Rig:
    """A fake broker with a dead letter topic of two partitions, and source topics."""

    def __init__(self, **sources: int) -> None:
        self.broker = FakeBroker()
        self.clients = FakeClients("penstock-dlq", self.broker, read_committed=True)
        for name, partitions in {DLQ: 2, **sources}.items():
            self.broker.create_topic(NewTopic(name.replace("_", "-"), partitions))

    def put(
        self,
        headers: list[Header] | None = None,
        *,
        key: bytes | None = b"k",
        value: bytes | None = b"v",
        timestamp: int = 1000,
        partition: int = 0,
    ) -> None:
        """Write a letter."""
        record = FakeRecord(key, value, timestamp, error_headers() if headers is None else headers)
        self.broker.append(DLQ, record, partition)

    def values(self, topic: str) -> list[bytes | None]:
        """Returns the values of the committed records of a topic, partition by partition."""
        return [record.value for record in self.broker.records(topic)]
