"""Topics of a broker in memory, for tests of what reads them from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.cluster.topic_reading.sources import PickledSerdes, TopicSource
from penstock.cluster.topic_reading.topic_serdes import TopicSerdes
from penstock.common.ids import TopicPartition
from penstock.common.serdes import Serde, Serdes
from penstock.common.topics import NewTopic
from penstock.testing.fake_broker import FakeRecord
from penstock.testing.fake_clients import FakeClients

TEXT = Serdes.string()


class Logs:
    """One topic, ``t``, read by penstock as by an application that is ``exactly_once`` or not."""

    def __init__(
        self, partitions: int = 1, *, exactly_once: bool = False, config: Mapping[str, str] | None = None
    ) -> None:
        self.clients = FakeClients("app", read_committed=exactly_once)
        self.broker = self.clients.broker
        self.clients.admin().create_topics([NewTopic("t", partitions, config=config or {})])
        self.exactly_once = exactly_once
        self.partition = TopicPartition("t", 0)

    def write(self, value: str | bytes | None, partition: int = 0, time: int = 0, key: str | None = "k") -> int:
        """Writes a record; returns its offset."""
        data = value.encode() if isinstance(value, str) else value
        return self.broker.append("t", FakeRecord(None if key is None else key.encode(), data, time, None), partition)

    def transaction(self, *values: str, commit: bool | None = True) -> None:
        """Writes values in a transaction, and ends it unless ``commit`` is None."""
        producer = self.clients.transactional_producer("writer")
        producer.init_transactions().result(60)
        producer.begin_transaction()
        for value in values:
            producer.send("t", b"k", value.encode(), 1, None, 0)
        assert producer.flush(60)
        if commit is not None:
            (producer.commit_transaction({}, b"") if commit else producer.abort_transaction()).result(60)

    def source(self, key: Serde[Any] = TEXT, value: Serde[Any] = TEXT) -> TopicSource:
        """Returns the way to read it."""
        return TopicSource(self.clients, self.exactly_once, PickledSerdes.of(TopicSerdes(key, value, "read by source")))
