"""The producer on librdkafka: idempotent, in order, and it reports every record that the broker refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from typing_extensions import override

from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.common.records import SENT_NOW, Headers
from penstock.kafka.binding import binding, supports
from penstock.kafka.contracts import CountingSender, Mark, RecordProducer, RefusedRecord
from penstock.kafka.counting import PlainCountingSender
from penstock.kafka.refusals import OF_RECORD, Refused, check_headers, late, not_bytes, refused
from penstock.kafka.settings import (
    REQUEST_TIMEOUT_S,
    client_configuration,
    producer_settings,
)
from penstock.kafka.topic_lookup import TopicLookup

_FULL_QUEUE_WAIT_S = 0.1
_SLICE_S = 0.1
"""Seconds of one call of ``flush``. confluent-kafka 2.16.1 flushes in slices of 0.2 s. After an error that ends the
client it continues with the next slice, whose reports of records then fail because of that error: ``SystemError``, or
no error at all."""


def open_producer(bootstrap_servers: str, overrides: Mapping[str, Any]) -> RecordProducer:
    """Returns a producer: the compiled one, which is faster, if it was built and supports these settings."""
    settings = producer_settings(bootstrap_servers, overrides)
    if not supports(overrides) or binding() is None:
        return ConfluentProducer(bootstrap_servers, settings)
    from penstock.kafka.native_producer import NativeProducer

    return NativeProducer(bootstrap_servers, settings)


class _Mark(Mark):
    """:class:`~penstock.kafka.contracts.Mark`; two calls per record, one of them by confluent-kafka."""

    def __init__(self, before: _Mark | None, failed: Callable[[KafkaError, Message], None]) -> None:
        self.sent = 0
        self._delivered = 0
        self._before = before
        self._failed = failed
        self._ends: dict[tuple[str | None, int | None], int] = {}

    def counted(self, error: KafkaError | None, message: Message) -> None:
        """Called when a record whose partition librdkafka chose was delivered or refused."""
        if error is None:
            self._delivered += 1
        else:
            self._failed(error, message)

    def logged(self, error: KafkaError | None, message: Message) -> None:
        """Called when a record of a given partition was delivered or refused."""
        if error is not None:
            self._failed(error, message)
            return
        self._delivered += 1
        offset = message.offset()
        if offset is not None and offset >= 0:
            where = message.topic(), message.partition()
            self._ends[where] = max(offset + 1, self._ends.get(where, 0))

    @override
    def delivered(self) -> bool:
        if self._before is not None and self._before.delivered():
            self._before = None
        return self._before is None and self._delivered == self.sent

    @override
    def ends(self) -> dict[TopicPartition, int]:
        return {TopicPartition(topic or "", partition or 0): end for (topic, partition), end in self._ends.items()}


def _ignore_delivery(error: KafkaError, message: Message) -> None:
    """Ignores the delivery reports of a closed producer."""


class ConfluentProducer(RecordProducer):
    """:class:`~penstock.kafka.contracts.RecordProducer` on confluent-kafka."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, Any], refused: Refused = refused) -> None:
        self._address = bootstrap_servers
        self._refused = refused
        self._failure: StreamsError | None = None
        self._refused_records: list[RefusedRecord] = []
        self._fatal: KafkaError | None = None
        self._topics = TopicLookup(bootstrap_servers)
        with client_configuration("producer."):
            self._client = Producer(dict(settings))
        self._open = _Mark(None, self._on_refused)
        self._produce: Callable[..., None] = self._client.produce

    @override
    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        # librdkafka reads time 0 as "now", so a record of time 0 goes out with 1 ms.
        timestamp = 0 if timestamp == SENT_NOW else timestamp or 1
        for part, given in (("key", key), ("value", value)):
            if given is not None and not isinstance(given, bytes):
                raise not_bytes(part, given, topic)
        if headers:
            check_headers(headers, topic)
        report = self._open.counted if partition < 0 else self._open.logged
        try:
            if headers:
                self._produce(topic, value, key, partition, report, None, timestamp, list(headers))
            else:
                self._produce(topic, value, key, partition, report, None, timestamp)
        except BufferError:
            self._send_when_there_is_room(topic, key, value, timestamp, headers, partition)
        except KafkaException as error:
            self.poll()  # raises the cause, if the producer cannot continue
            raise self._error(error.args[0], topic, partition, key) from error
        self._open.sent += 1

    def _send_when_there_is_room(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
        partition: int,
    ) -> None:
        given = list(headers) if headers else None
        report = self._open.counted if partition < 0 else self._open.logged
        while True:
            self._wait(_FULL_QUEUE_WAIT_S)
            try:
                self._produce(topic, value, key, partition, report, None, timestamp, given)
            except BufferError:
                continue
            except KafkaException as error:
                self.poll()  # raises the cause, if the producer cannot continue
                raise self._error(error.args[0], topic, partition, key) from error
            return

    @override
    def poll(self) -> None:
        self._wait(0.0)

    def _wait(self, timeout_s: float) -> None:
        self._serve(self._client.poll, timeout_s)
        self._raise_failure()

    @override
    def flush(self, timeout_s: float) -> bool:
        end_s = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, end_s - time.monotonic())
            flushed = self._serve(self._client.flush, min(left_s, _SLICE_S)) == 0
            self._raise_failure()
            if flushed or left_s <= _SLICE_S:
                return flushed

    def _serve(self, served_by: Callable[[float], int], timeout_s: float) -> int | None:
        try:
            return served_by(timeout_s)
        except KafkaException as error:  # an error that ends the client is reported once
            self._fatal = error.args[0]
            return None

    def _raise_failure(self) -> None:
        if self._fatal is not None:
            raise self._error(self._fatal, None, None, None)
        if self._failure is not None:
            raise self._failure

    @override
    def give_up(self, timeout_s: float) -> bool:
        # confluent-kafka 2.16.1 inverts the flag: False waits for librdkafka's threads, so that records which are sent
        # next are not dropped too (test_records_sent_right_after_giving_up_are_not_given_up).
        self._client.purge(blocking=False)
        given_up = self._serve(self._client.flush, timeout_s) == 0
        if given_up:
            self._forget_failure()
        return given_up

    @override
    def withhold(self) -> None:
        self._produce = self._refuse
        self._client.purge(blocking=True)  # which does not wait: see ``give_up``

    @override
    def resume(self) -> None:
        self._produce = self._client.produce

    def _refuse(self, topic: str, value: bytes | None, key: bytes | None, partition: int, *_: object) -> None:
        # ``poll`` must report it, too: the caller may swallow the exception.
        error = self._error(KafkaError(KafkaError._PURGE_QUEUE), topic, partition, key)
        self._failure = self._failure or error
        raise error

    @override
    def mark(self) -> Mark:
        # Counts with a Python call per record, which the compiled producer does not need.
        closed = self._open
        self._open = _Mark(closed, self._on_refused)
        return closed

    def _forget_failure(self) -> None:
        self._failure = None
        self._refused_records.clear()
        self._open = _Mark(None, self._on_refused)  # marks made before are never delivered

    def _on_refused(self, error: KafkaError, message: Message) -> None:
        # The first failure is the cause; what follows are its consequences.
        topic, partition, key = message.topic(), message.partition(), message.key()
        if self._failure is None:
            self._failure = late(self._error(error, topic, partition, key))
        if error.code() in OF_RECORD and topic is not None and partition is not None:
            self._refused_records.append(RefusedRecord(topic, partition, key, message.value()))

    @override
    def take_refused(self) -> list[RefusedRecord]:
        taken, self._refused_records = self._refused_records, []
        return taken

    def _error(self, error: KafkaError, topic: str | None, partition: int | None, key: bytes | None) -> StreamsError:
        return self._refused(error.code(), error.str(), topic, partition, key)

    @override
    def counting(self) -> CountingSender:
        return PlainCountingSender(self.send)

    @override
    def unknown_topics(self, topics: Iterable[str]) -> frozenset[str]:
        return self._topics.unknown(topics, self._count_partitions)

    @override
    def partitions(self, topic: str) -> int:
        return self._topics.partitions(topic, self._count_partitions)

    def _count_partitions(self, topic: str) -> int:
        found = self._client.list_topics(topic, REQUEST_TIMEOUT_S).topics[topic]
        if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(found.error)
        return len(found.partitions)

    @override
    def close(self) -> None:
        self._client.purge()
        with suppress(StreamsError):  # of dropped records, or of a producer that has failed before
            self.flush(1.0)
        # A mark that calls this object is a reference cycle: the client's threads would live until it is collected.
        self._open = _Mark(None, _ignore_delivery)
