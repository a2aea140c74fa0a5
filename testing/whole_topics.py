"""Reads whole topics, for harnesses that compare what was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing

from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import BEGINNING

_RECORDS = 10_000
_POLL_S = 0.1


def whole(clients: KafkaClients, partitions: Iterable[TopicPartition]) -> Iterator[RecordBatch]:
    """Yields all records that ``partitions`` have now, in order within each partition, as consumers of ``clients`` see
    them. There is no time-out."""
    with closing(clients.consumer()) as consumer:
        ends = {at: end for at, end in consumer.fetch_end_offsets(partitions).items() if end}
        consumer.assign(dict.fromkeys(ends, BEGINNING))
        while any(consumer.position(at) < end for at, end in ends.items()):
            yield from consumer.poll(_RECORDS, _POLL_S)
