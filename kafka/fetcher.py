"""Fetches the records that librdkafka has ready, as columns.

There are two implementations: penstock's own binding (``librdkafka.pyx``), and this one in Python, if the binding was
not built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, Message
from typing_extensions import override

from penstock.common.ids import TopicPartition
from penstock.common.records import Headers, RecordBatch
from penstock.kafka.binding import binding, supports

# Unbound methods: mapping them over the messages makes each column without a Python frame per record.
_topic, _partition, _offset, _error = Message.topic, Message.partition, Message.offset, Message.error
_key, _value, _timestamp, _headers = Message.key, Message.value, Message.timestamp, Message.headers


class Event(NamedTuple):
    """An event of a partition other than records: its end for now, or the error because of which it cannot be read."""

    topic: str | None
    partition: int
    offset: int
    error: KafkaError


class Fetcher(Protocol):
    """Replaces a consumer's ``poll``; its other calls may be used."""

    def fetch(self, max_records: int, timeout_s: float) -> tuple[list[RecordBatch], list[Event]]:
        """Returns up to ``max_records`` records and events: one batch per run of one partition, in order of arrival.

        Waits at most ``timeout_s`` for *all* of them, not for the first.
        """

    def close(self) -> None:
        """Release the consumer; call this before the consumer is closed. Idempotent."""


def open_fetcher(consumer: Consumer, overrides: Mapping[str, Any]) -> Fetcher:
    """Returns the fastest available fetcher for a consumer with these settings of the user."""
    native = binding() if supports(overrides) else None
    return MessageFetcher(consumer) if native is None else native.Fetcher(consumer)


class MessageFetcher(Fetcher):
    """:class:`Fetcher` on confluent-kafka's messages, turned into columns as cheaply as Python allows."""

    def __init__(self, consumer: Consumer) -> None:
        self._consume = consumer.consume

    @override
    def fetch(self, max_records: int, timeout_s: float) -> tuple[list[RecordBatch], list[Event]]:
        messages = self._consume(max_records, timeout_s)
        events = []
        if any(map(_error, messages)):
            events = [_event(message, error) for message in messages if (error := message.error()) is not None]
            messages = [message for message in messages if message.error() is None]
        return _batches(messages) if messages else [], events

    @override
    def close(self) -> None:
        """Does nothing: there is nothing to release."""


def _event(message: Message, error: KafkaError) -> Event:
    # None only in records.
    return Event(message.topic(), message.partition(), message.offset(), error)  # type: ignore[arg-type]


def _batches(messages: list[Message]) -> list[RecordBatch]:
    partitions, topics = list(map(_partition, messages)), list(map(_topic, messages))
    total = len(messages)
    if partitions.count(partitions[0]) == total and topics.count(topics[0]) == total:
        return [_batch(messages)]
    changes = [at for at in range(1, total) if partitions[at] != partitions[at - 1] or topics[at] != topics[at - 1]]
    return [_batch(messages[begin:end]) for begin, end in pairwise([0, *changes, total])]


def _batch(messages: list[Message]) -> RecordBatch:
    first = messages[0]
    tp = TopicPartition(first.topic(), first.partition())  # type: ignore[arg-type]  # None only without a topic
    begin, end = first.offset(), messages[-1].offset()
    offsets: Sequence[int] = range(begin, end + 1)  # type: ignore[arg-type, operator]  # None only in events
    if len(offsets) != len(messages):  # compacted, or with markers between
        offsets = list(map(_offset, messages))  # type: ignore[arg-type]  # None only in events
    headers: list[Headers | None] | None = None
    if any(map(_headers, messages)):
        headers = list(map(_headers, messages))  # type: ignore[arg-type]  # bytes, as read
    keys, values = list(map(_key, messages)), list(map(_value, messages))
    size = sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))
    return RecordBatch(tp, keys, values, [at for _, at in map(_timestamp, messages)], offsets, headers, size)
