"""History in Kafka's topics, read by Spark's own connector."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from typing_extensions import override

from penstock.common.ids import TopicPartition
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import RecordConsumer
from penstock.kafka.topics import Topics
from penstock.pipeline.offset_ranges import OffsetRange, Ranges
from penstock.pipeline.reading.contracts import RECORD_COLUMNS, HistorySource, OpenHistory
from penstock.pipeline.reading.kafka_reader import KafkaReader

_FETCH_MAX_WAIT_MS = 10
"""All that is read is there already, so nothing is gained by waiting for more. And Spark asks for offsets on the
connection on which the broker holds back its next fetch, by default for half a second."""


@dataclass(frozen=True)
class KafkaHistory(HistorySource):
    """The topics of a Kafka cluster. ``options``: the security options of Spark's readers (``kafka_options.py``).

    If the application's consumers read committed records only, Spark's readers do, too.
    """

    clients: ConfluentClients
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

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

    @override
    def records(self, spark: SparkSession, ranges: Ranges) -> DataFrame | None:
        chosen = {partition: offsets for partition, offsets in ranges.items() if offsets}
        if not chosen:
            return None
        begins: dict[str, dict[str, int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for partition, offsets in chosen.items():
            begins.setdefault(partition.topic, {})[str(partition.partition)] = offsets.begin
            ends.setdefault(partition.topic, {})[str(partition.partition)] = offsets.end
        assigned = {topic: [int(number) for number in numbers] for topic, numbers in begins.items()}
        rows = (
            spark.read.format("kafka")
            .options(**self.options)
            .option("kafka.bootstrap.servers", self.clients.bootstrap_servers)
            .option("kafka.isolation.level", "read_committed" if self.clients.reads_committed else "read_uncommitted")
            .option("kafka.fetch.max.wait.ms", str(_FETCH_MAX_WAIT_MS))
            .option("assign", json.dumps(assigned))
            .option("startingOffsets", json.dumps(begins))
            .option("endingOffsets", json.dumps(ends))
            .option("includeHeaders", "true")
            .load()
        )
        return rows.withColumn("timestamp", sql.unix_millis("timestamp")).select(*RECORD_COLUMNS)


def kafka_ranges(consumer: RecordConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
    """Returns the offsets that Kafka has of each partition now. For a reader of committed records they end before the
    first transaction that is open."""
    asked = list(partitions)
    begins, ends = consumer.fetch_beginning_offsets(asked), consumer.fetch_end_offsets(asked)
    return {partition: OffsetRange(begins[partition], ends[partition]) for partition in asked}
