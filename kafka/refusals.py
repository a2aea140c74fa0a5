"""What to say when a record cannot be written."""

from __future__ import annotations

from confluent_kafka import KafkaError

from penstock.common.errors import MissingTopicError, ProductionError
from penstock.common.records import check_headers as check_headers
from penstock.common.records import not_bytes as not_bytes


def refusal(error: object, topic: str | None, partition: int | None, key: object) -> ProductionError:
    """The error for a record that librdkafka or the broker refused for good."""
    hint = _HINTS.get(error.code(), "") if isinstance(error, KafkaError) else ""
    what = f"the record cannot be written to topic {topic!r}: {_description(error)}{hint}"
    return ProductionError(what, topic=topic, partition=partition, key=key)


def producer_failed(error: object) -> ProductionError:
    """The error for a producer that can write nothing any more: its order or its exactness would not hold."""
    return ProductionError(f"the producer has failed, what it had queued is not written: {_description(error)}")


def _description(error: object) -> str:
    return f"{error.str()} ({error.name()})" if isinstance(error, KafkaError) else str(error)


def require_partitions(topic: str, partitions: int) -> int:
    """``partitions``, unless there are none: the topic does not exist."""
    if partitions == 0:
        raise MissingTopicError(f"topic {topic!r} does not exist: create it before it is written")
    return partitions


_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: ": raise the topic's max.message.bytes and producer.message.max.bytes",
    KafkaError.UNKNOWN_TOPIC_OR_PART: ": create the topic",
    KafkaError._UNKNOWN_TOPIC: ": create the topic",
    KafkaError._UNKNOWN_PARTITION: ": the partitioner chose a partition that the topic does not have",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: ": allow this client to write to it",
}
