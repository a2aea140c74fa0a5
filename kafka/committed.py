"""Reads committed offsets safely from the answers of a client."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Tpo

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.settings import as_streams_error


def committed_offsets(answers: Iterable[Tpo], bootstrap_servers: str) -> dict[TopicPartition, CommittedOffset]:
    """Returns the answers for partitions that have a committed offset. Raises when the answer for one is an error."""
    found = {}
    for answer in answers:
        if answer.error is not None:
            what = f"fetch the committed offset of partition {answer.partition} of topic {answer.topic!r}"
            raise as_streams_error(KafkaException(answer.error), what, bootstrap_servers)
        if answer.offset >= 0:
            found[TopicPartition(answer.topic, answer.partition)] = committed_offset(answer)
    return found


def committed_offset(answer: Tpo) -> CommittedOffset:
    """Returns the offset and the metadata of ``answer``.

    librdkafka 2.16 returns metadata without a terminating zero, and confluent-kafka reads until it finds one. Metadata
    that confluent-kafka commits includes the zero. After metadata that the Java client committed, as of a Kafka Streams
    application, stray bytes may follow. Those that are not UTF-8 are cut off here; others remain, so a reader of the
    text must know where it ends.
    """
    try:
        return CommittedOffset(answer.offset, answer.metadata or "")
    except UnicodeDecodeError as error:
        return CommittedOffset(answer.offset, error.object[: error.start].decode())
