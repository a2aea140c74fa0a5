"""The producer on penstock's own binding. Import it only where ``binding()`` has one."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError
from typing_extensions import override

from penstock.common.errors import ProductionError
from penstock.kafka.contracts import RecordProducer
from penstock.kafka.librdkafka import Sender
from penstock.kafka.refusals import producer_failed, refusal, require_partitions
from penstock.kafka.settings import REQUEST_TIMEOUT_S, broker_errors, client_configuration, producer_settings


class NativeProducer(Sender, RecordProducer):
    """:class:`~penstock.kafka.contracts.RecordProducer`; ``send``, ``poll``, ``flush`` and ``close`` are compiled."""

    def __init__(self, bootstrap_servers: str, overrides: Mapping[str, str | float]) -> None:
        with client_configuration("producer."):
            super().__init__(producer_settings(bootstrap_servers, overrides), _refused)
        self._address = bootstrap_servers
        self._partitions: dict[str, int] = {}

    @override
    def partitions(self, topic: str) -> int:
        # Asked once per topic.
        count = self._partitions.get(topic)
        if count is None:
            with broker_errors(f"ask for topic {topic!r}", self._address):
                found = self.count_partitions(topic, REQUEST_TIMEOUT_S)
            count = self._partitions[topic] = require_partitions(topic, found)
        return count


def _refused(code: int, text: str | None, topic: str | None, partition: int, key: bytes | None) -> ProductionError:
    error = KafkaError(code) if text is None else KafkaError(code, text)
    return producer_failed(error) if topic is None else refusal(error, topic, partition, key)
