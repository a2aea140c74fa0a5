"""Archives topics of a real broker in this process, over a session of Spark that tests share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import TransactionalProducer
from penstock.objects.contracts import ObjectStore
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.archived_topic import ArchivedTopic
from penstock.pipeline.archive.batches import Batch
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.opening import ArchiveTask, check, open_run
from penstock.pipeline.archive.run import ArchiveRun
from penstock.pipeline.archive.spark_tasks import SparkTasks

Row = tuple[int, int, bytes | None, bytes | None, int]
"""Partition, offset, key, value, timestamp (ms)."""


def clients_of(broker: str) -> ConfluentClients:
    return ConfluentClients.of(
        StreamsConfig.of(
            {
                "application.id": "penstock-archive",
                "bootstrap.servers": broker,
                "consumer.isolation.level": "read_committed",
            }
        )
    )


class Rig:
    """Topics on a broker, and an archive of them in a folder."""

    def __init__(self, broker: str, folder: Path, spark: SparkSession | None = None) -> None:
        self.broker = broker
        self.clients = clients_of(broker)
        self.location = ObjectLocation(str(folder))
        self.objects: ObjectStore = self.location.open()
        self._spark = spark

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self.clients.admin().create_topics([NewTopic(topic, partitions, config=settings)])

    def send(self, topic: str, values: Iterable[str], partition: int = 0, **more: Any) -> None:
        producer = self.clients.producer()
        for number, value in enumerate(values):
            producer.send(topic, f"k{number % 7}".encode(), value.encode(), 1_000 + number, partition=partition, **more)
        assert producer.flush(60)
        producer.close()

    def transaction(self, topic: str, values: Iterable[str], end: str) -> TransactionalProducer:
        """Write records to partition 0 in a transaction, which ends by ``commit``, ``abort``, or stays open."""
        producer = self.clients.transactional_producer(f"{topic}-tx")
        producer.init_transactions().result()
        producer.begin_transaction()
        for number, value in enumerate(values):
            producer.send(topic, f"k{number}".encode(), value.encode(), 1_000 + number, partition=0)
        assert producer.flush(60)
        if end == "commit":
            producer.commit_transaction({}, b"").result()
        elif end == "abort":
            producer.abort_transaction().result()
        return producer

    def task(self, *topics: str, **more: Any) -> ArchiveTask:
        return ArchiveTask(topics, self.location, self.clients, **more)

    def archive(self, *topics: str, **more: Any) -> list[Batch]:
        """Archive all that is there now; returns what was reported."""
        assert self._spark is not None
        task, batches = self.task(*topics, **more), list[Batch]()
        check(task, self.objects)
        ArchiveRun(task, open_run(task, self.objects), SparkTasks(self._spark), batches.append).run()
        return batches

    def archived(self, topic: str, topic_id: str | None = None) -> ArchivedTopic:
        found = Archive(self.objects).generation(topic, topic_id)
        assert found is not None
        return found

    def table(self, topic: str) -> pa.Table:
        """Returns all records of the newest generation, by partition and offset, read without penstock's reader."""
        files = self.archived(topic).all_files()
        return pa.concat_tables([pq.read_table(pa.BufferReader(self.objects.read(file.name))) for file in files])

    def rows(self, topic: str) -> list[Row]:
        return [
            (row["partition"], row["offset"], row["key"], row["value"], round(row["timestamp"].timestamp() * 1000))
            for row in self.table(topic).to_pylist()
        ]

    def in_kafka(self, topic: str) -> list[Row]:
        """Returns what a reader of committed records finds in Kafka."""
        partitions = [TopicPartition(topic, number) for number in range(self.clients.admin().topics()[topic])]
        consumer = self.clients.consumer()
        begins, ends = consumer.fetch_beginning_offsets(partitions), consumer.fetch_end_offsets(partitions)
        consumer.assign(begins)
        rows: list[Row] = []
        while any(consumer.position(it) < end for it, end in ends.items() if end > begins[it]):
            for batch in consumer.poll(10_000, 0.2):
                columns = zip(batch.offsets, batch.keys, batch.values, batch.timestamps, strict=True)
                rows += [(batch.partition.partition, *row) for row in columns]
        consumer.close()
        return sorted(rows, key=lambda row: row[:2])
