"""The end of a backfill: results and final state go to Kafka, the offsets last, and the live application continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.common.errors import StreamsError
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import RecordProducer
from penstock.pipeline.rows import WRITTEN_ARROW, WRITTEN_SCHEMA, headers_of

_FLUSH_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class RecordWriter:
    """Writes rows of ``OUTPUT_SCHEMA`` to their topics, in order; ``run`` is given to ``mapInArrow``."""

    clients: KafkaClients

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the number of rows written to each topic, when Kafka has acknowledged all of them."""
        written: Counter[str] = Counter()
        batches = (batch for batch in batches if len(batch))
        if (first := next(batches, None)) is not None:  # with many stages, most partitions write nothing
            with closing(self.clients.producer()) as producer:
                for batch in chain([first], batches):
                    written.update(_send(producer, batch))
                    producer.poll()
                if not producer.flush(_FLUSH_TIMEOUT_S):
                    raise StreamsError(f"Kafka did not acknowledge what was written within {_FLUSH_TIMEOUT_S:.0f} s")
        columns = [pa.array(written.keys(), pa.string()), pa.array(written.values(), pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, schema=WRITTEN_ARROW)


def _send(producer: RecordProducer, batch: pa.RecordBatch) -> list[str]:
    names = ("topic", "key", "value", "timestamp", "partition")
    columns: list[list[Any]] = [batch.column(name).to_pylist() for name in names]
    headers = headers_of(batch.column("headers")) or [None] * len(batch)
    for topic, key, value, timestamp, partition, own in zip(*columns, headers, strict=True):
        producer.send(topic, key, value, timestamp, own, partition)
    return columns[0]


def write_records(rows: DataFrame, clients: KafkaClients) -> Mapping[str, int]:
    """Write ``rows``; returns their number by topic. Rows of one partition of the frame keep their order.

    If it fails, any of them may have been written.
    """
    written: Counter[str] = Counter()
    for row in rows.mapInArrow(RecordWriter(clients).run, WRITTEN_SCHEMA).collect():
        written[row["topic"]] += row["written"]
    return written
