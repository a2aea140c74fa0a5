"""The producer on penstock's own binding. Import it only where ``binding()`` has one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from typing_extensions import override

from penstock.common.ids import Offsets
from penstock.kafka.contracts import RecordProducer, TransactionalProducer
from penstock.kafka.librdkafka import Sender
from penstock.kafka.refusals import Refused, refused, refused_in_transaction
from penstock.kafka.settings import REQUEST_TIMEOUT_S, client_configuration
from penstock.kafka.topic_lookup import TopicLookup
from penstock.kafka.transactions import Transactions, answers_within_s


class NativeProducer(Sender, RecordProducer):
    """:class:`~penstock.kafka.contracts.RecordProducer`; ``send``, ``poll``, ``flush`` and ``close`` are compiled."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str | float], refused: Refused = refused) -> None:
        with client_configuration("producer."):
            super().__init__(settings, refused)
        self._address = bootstrap_servers
        self._topics = TopicLookup(bootstrap_servers)

    @override
    def unknown_topics(self, topics: Iterable[str]) -> frozenset[str]:
        return self._topics.unknown(topics, self._count)

    @override
    def partitions(self, topic: str) -> int:
        return self._topics.partitions(topic, self._count)

    def _count(self, topic: str) -> int:
        return self.count_partitions(topic, REQUEST_TIMEOUT_S)


class NativeTransactionalProducer(NativeProducer, TransactionalProducer):
    """:class:`~penstock.kafka.contracts.TransactionalProducer`; ``begin_transaction`` is compiled, too."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str | float]) -> None:
        super().__init__(bootstrap_servers, settings, refused_in_transaction)
        self._settings = settings
        self.answers_within_s = answers_within_s(settings)

    def _transactions(self) -> Transactions:
        # The sender's calls have the same names as confluent-kafka's; through ``self`` ours would be found.
        client: Any = super()
        return Transactions(client, self._address, self._settings)

    @override
    def init_transactions(self) -> Future[None]:
        return self._transactions().init()

    @override
    def begin_transaction(self) -> None:
        self._transactions().begin()

    @override
    def commit_transaction(self, offsets: Offsets, group_metadata: bytes) -> Future[None]:
        asked = [(*tp, committed.offset, committed.metadata) for tp, committed in offsets.items()]
        return self._transactions().commit(asked, group_metadata)

    @override
    def abort_transaction(self) -> Future[None]:
        return self._transactions().abort()
