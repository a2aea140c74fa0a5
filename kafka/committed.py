"""What a client answers for a committed offset, read safely."""

from __future__ import annotations

from confluent_kafka import TopicPartition as Tpo

from penstock.kafka.contracts import CommittedOffset


def committed_offset(answer: Tpo) -> CommittedOffset:
    """Offset and metadata of ``answer``.

    librdkafka 2.16 hands metadata on without a terminating zero and confluent-kafka reads on until there is one. What
    confluent-kafka commits has the zero in it; behind what the Java client committed, such as the offsets of a Kafka
    Streams application, stray bytes may follow. Those that are no UTF-8 are cut off here; others remain, so whoever
    reads the text must know where it ends.
    """
    try:
        return CommittedOffset(answer.offset, answer.metadata or "")
    except UnicodeDecodeError as error:
        return CommittedOffset(answer.offset, error.object[: error.start].decode())
