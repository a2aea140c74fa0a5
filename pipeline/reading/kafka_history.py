"""History in Kafka's topics, read by the clients of the application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from typing_extensions import override

from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import RecordConsumer
from penstock.kafka.range_reader import KafkaReader
from penstock.kafka.topics import Topics
from penstock.pipeline.reading.contracts import HistorySource, OpenHistory


@dataclass(frozen=True)
class KafkaHistory(HistorySource):
    """The topics of a Kafka cluster, as the application's consumers read them: with its credentials, and committed
    records only if they read no others."""

    clients: ConfluentClients

    @override
    def available(self, partitions: Iterable[TopicPartition]) -> Ranges:
        with closing(self.clients.consumer()) as consumer:
            return kafka_ranges(consumer, partitions)

    @override
    def offsets_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        return Topics.of(self.clients).offsets_at(partitions, time_ms)

    @override
    def require(self, ranges: Ranges) -> None:
        """Kafka deletes records at any time: what is gone is found when it is read."""

    @override
    def open(self, ranges: Ranges) -> OpenHistory:
        return KafkaReader(self.clients.restore_consumer(), ranges)


def kafka_ranges(consumer: RecordConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
    """Returns the offsets that Kafka has of each partition now. For a reader of committed records they end before the
    first transaction that is open."""
    asked = list(partitions)
    begins, ends = consumer.fetch_beginning_offsets(asked), consumer.fetch_end_offsets(asked)
    return {partition: OffsetRange(begins[partition], ends[partition]) for partition in asked}
