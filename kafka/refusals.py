"""Explains why a record cannot be written."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError

from penstock.common.errors import MissingTopicError, ProductionError, RecordRefusedError, StreamsError
from penstock.common.records import check_headers as check_headers
from penstock.common.records import not_bytes as not_bytes
from penstock.common.topics import has_internal_name
from penstock.kafka.contracts import TransactionAbortedError, UndeliveredError
from penstock.kafka.missing_topics import advice
from penstock.kafka.settings import MISSING_TOPIC, RETRIABLE, UNREACHABLE, error_text

Refused = Callable[[int, "str | None", "str | None", "int | None", "bytes | None"], StreamsError]
"""Makes the error for a refusal by the broker, or by librdkafka: code, text, then topic, partition and key of the
record. If the topic is None, the producer itself has failed."""


def refused(code: int, text: str | None, topic: str | None, partition: int | None, key: bytes | None) -> StreamsError:
    """Returns the error of one record, or of a producer that could not keep the order, or would lose or repeat
    records."""
    message = error_text(_error(code, text))
    if code in SPENT:
        return UndeliveredError(f"the producer cannot continue: {message}", producer_is_spent=True)
    if code == KafkaError._MSG_TIMED_OUT:
        return UndeliveredError(f"no broker took a record for topic {topic!r} within message.timeout.ms: {message}")
    if code in _PURGED:
        return UndeliveredError(
            f"a record for topic {topic!r} was withdrawn before a broker acknowledged it: {message}"
        )
    if topic is None:
        return ProductionError(f"the producer has failed, its queued records are not written: {message}")
    hint = f": {advice(topic)}" if code in MISSING_TOPIC and has_internal_name(topic) else _HINTS.get(code, "")
    what = f"the record cannot be written to topic {topic!r}: {message}{hint}"
    kind = RecordRefusedError if code in OF_RECORD or code == _BESIDE_ANOTHER else ProductionError
    return kind(what, topic=topic, partition=partition, key=key)


def late(error: StreamsError) -> StreamsError:
    """Returns ``error``, marked as one about a record that was sent before."""
    if isinstance(error, ProductionError):
        error.late = True
    return error


def refused_in_transaction(
    code: int, text: str | None, topic: str | None, partition: int | None, key: bytes | None
) -> StreamsError:
    """Returns the error of a transactional producer, which may have to begin again although no record is at fault."""
    if topic is None or code in SPENT:
        what = f"the transactional producer cannot continue: {error_text(_error(code, text))}"
        return TransactionAbortedError(what, producer_is_spent=True)
    if code in _ABORTED or code in _UNKNOWN or code in RETRIABLE:
        what = f"a record for topic {topic!r} was not written: {error_text(_error(code, text))}"
        return TransactionAbortedError(what, producer_is_spent=code in _UNKNOWN)
    return refused(code, text, topic, partition, key)


def _error(code: int, text: str | None) -> KafkaError:
    return KafkaError(code) if text is None else KafkaError(code, text)


def require_partitions(topic: str, partitions: int) -> int:
    """Returns ``partitions``. Raises MissingTopicError if there are none: the topic does not exist."""
    if partitions == 0:
        how = advice(topic) if has_internal_name(topic) else "create it before it is written"
        raise MissingTopicError(f"topic {topic!r} does not exist: {how}")
    return partitions


SPENT = frozenset(
    {KafkaError._FENCED, KafkaError._FATAL, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH,
     KafkaError.INVALID_TXN_STATE, KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID,
     KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.TRANSACTION_COORDINATOR_FENCED,
     KafkaError._GAPLESS_GUARANTEE}
)  # fmt: skip
"""Errors after which a producer cannot continue. Another has the ``transactional.id``, the broker has aborted the
transaction, or the broker's state of the producer does not fit (KAFKA-16699: no reason to end the application)."""
OF_RECORD = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_MSG,
     KafkaError.INVALID_MSG_SIZE, KafkaError.INVALID_TIMESTAMP, KafkaError.POLICY_VIOLATION, KafkaError.INVALID_RECORD}
)  # fmt: skip
"""Errors of a record that is at fault itself."""
_BESIDE_ANOTHER = KafkaError._INVALID_DIFFERENT_RECORD
"""Error of a record in whose batch another one is at fault."""
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
_TRANSACTION_ABORTABLE: int = getattr(
    KafkaError, "TRANSACTION_ABORTABLE", 120
)  # confluent-kafka 2.12 has no name for it
_ABORTED = _PURGED | {KafkaError._STATE, _TRANSACTION_ABORTABLE, KafkaError.CONCURRENT_TRANSACTIONS}
"""Errors of a record that is not at fault: its transaction cannot be committed."""
_UNKNOWN = UNREACHABLE | {KafkaError._MSG_TIMED_OUT}
"""Errors of a record that may be written nevertheless, because an answer may be lost, as the answer to a commit may."""
_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: ": raise the topic's max.message.bytes and producer.message.max.bytes",
    KafkaError.UNKNOWN_TOPIC_OR_PART: ": create the topic",
    KafkaError._UNKNOWN_TOPIC: ": create the topic",
    KafkaError._UNKNOWN_PARTITION: ": the partitioner chose a partition that the topic does not have",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: ": allow this client to write to it",
}
