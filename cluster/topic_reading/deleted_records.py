"""Continues a read of a topic behind records that were deleted before they were read."""

from __future__ import annotations

from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.kafka.contracts import RecordConsumer


def skip_deleted(consumer: RecordConsumer, partition: TopicPartition, offset: int) -> str:
    """Continue at the first record there is, instead of the one at ``offset``. Returns a sentence that names those that
    are left out. Raises StreamsError if the topic was created again, or cut, meanwhile."""
    where = f"partition {partition.partition} of topic {partition.topic!r}"
    first = consumer.fetch_beginning_offsets([partition])[partition]
    if first < offset:
        raise StreamsError(
            f"{where}: offset {offset} no longer exists: the topic was created again, or its records were deleted; run "
            "the command again"
        )
    consumer.seek(partition, first)
    return f"{where}: the records at offsets {offset} to {first - 1} were deleted before they were read"
