"""The consumer on librdkafka: assigned partitions only, and the position of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Tpo
from typing_extensions import override

from penstock.common.errors import BrokerUnreachableError, KafkaRefusedError, StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.log import logger
from penstock.common.records import RecordBatch
from penstock.kafka.broker_ends import BrokerEnds
from penstock.kafka.committed import committed_offsets
from penstock.kafka.contracts import BEGINNING, END, RecordConsumer
from penstock.kafka.fetch_watch import PATIENCE_S, FetchWatch, Stall
from penstock.kafka.fetcher import Event, open_fetcher
from penstock.kafka.leaders import checked_offset, of_the_leaders
from penstock.kafka.missing_topics import MissingTopics
from penstock.kafka.settings import (
    MISSING_TOPIC,
    POSITION_LOST,
    REQUEST_TIMEOUT_S,
    RETRIABLE,
    UNREACHABLE,
    broker_errors,
    client_configuration,
    consumer_settings,
    error_text,
)
from penstock.kafka.stable_ends import open_stable_ends

_ANSWER_PATIENCE_S = 30.0
"""Seconds after the first request without an answer, after which a new client asks: time for three more requests."""
_NOWHERE = 1 << 63  # the position of a partition that is not read


class ConfluentConsumer(RecordConsumer):
    """:class:`~penstock.kafka.contracts.RecordConsumer` on confluent-kafka; knows ``group`` only by its offsets."""

    def __init__(self, bootstrap_servers: str, group: str, overrides: Mapping[str, Any]) -> None:
        self._address = bootstrap_servers
        self._log = logger(__name__)
        self._settings = consumer_settings(bootstrap_servers, group, overrides)
        self._overrides = overrides
        with client_configuration("consumer."):
            self._client = Consumer(self._settings)
        self._fetcher = open_fetcher(self._client, overrides)
        self._positions: dict[TopicPartition, int] = {}
        self._heard: set[TopicPartition] = set()  # a fetch has answered since they were assigned
        self._drained: set[TopicPartition] = set()  # the last that came of them was their end
        self._lost: set[TopicPartition] = set()  # until lost_positions() has reported them
        self._wait_for_seek: set[TopicPartition] = set()  # these, until seek() was called
        self._paused: set[TopicPartition] = set()
        self._missing = MissingTopics(bootstrap_servers)
        self._stable = open_stable_ends(bootstrap_servers, overrides)
        self._watch = FetchWatch(int(self._settings["fetch.wait.max.ms"]) / 1000)
        self._ends = BrokerEnds(bootstrap_servers, overrides)
        self._look_at_s = time.monotonic() + PATIENCE_S
        self._unanswered_s: float | None = None  # since when, and None after an answer
        self._closed = False

    @override
    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        gone = [tp for tp in self._positions if tp not in positions]
        new = {tp: offset for tp, offset in positions.items() if tp not in self._positions}
        with broker_errors("assign partitions", self._address):
            if gone:
                self._client.incremental_unassign([Tpo(*tp) for tp in gone])
            if new:
                self._client.incremental_assign([Tpo(*tp, offset) for tp, offset in new.items()])
        for tp in gone:
            del self._positions[tp]
            self._lost.discard(tp)
            self._wait_for_seek.discard(tp)
        self._heard.difference_update(gone)
        self._drained.difference_update(gone)
        self._watch.forget(gone)
        if self._stable is not None:
            self._stable.forget(gone)
        self._positions.update(new)
        self._missing.keep({tp.topic for tp in self._positions})

    @override
    def seek(self, partition: TopicPartition, offset: int) -> None:
        others = {tp: position for tp, position in self._positions.items() if tp != partition}
        self.assign(others)
        self.assign({**others, partition: offset})

    @override
    def lost_positions(self) -> dict[TopicPartition, int]:
        # The position as of now, not of the error: records of the same poll may have come before it.
        lost, self._lost = self._lost, set()
        return {tp: self._positions[tp] for tp in lost}

    @override
    def poll(self, max_records: int, timeout_s: float) -> list[RecordBatch]:
        """Drains the queue, then waits for one record: a fetch with a time-out would wait for a full batch."""
        batches, events = self._fetcher.fetch(max_records, 0)
        drained = sum(map(len, batches)) + len(events) < max_records
        if not batches and not events and timeout_s > 0:
            batches, events = self._fetcher.fetch(1, timeout_s)
        for event in events:
            if event.error.code() == KafkaError._PARTITION_EOF:
                self._at_end(event)
            else:
                self._failed(event)
        self._missing.check(self._client)
        for batch in batches:
            self._read(batch)
        if drained and time.monotonic() >= self._look_at_s:
            self._look()
        # Records of a partition may still arrive just after it was unassigned.
        return [batch for batch in batches if batch.partition in self._positions]

    def _read(self, batch: RecordBatch) -> None:
        # The same fetch may have brought the end event, which is handled first: it counts only if no record follows.
        last, tp = batch.offsets[-1], batch.partition
        if last >= self._positions.get(tp, _NOWHERE):
            self._positions[tp] = last + 1
            self._heard.add(tp)
            self._drained.discard(tp)

    def _look(self) -> None:
        """Restart the fetch if a partition gives no records although the broker has some. The queue must be empty."""
        now_s = time.monotonic()
        # A partition whose position is lost gives nothing until seek() is called, which may take as long as its leader
        # is away. Until then the others are read.
        left_out = self._paused | self._wait_for_seek
        positions = {tp: position for tp, position in self._positions.items() if tp not in left_out}
        if not self._ends.asked:
            if silent := self._watch.silent(positions):
                self._ends.ask(silent)
            else:
                self._look_at_s = now_s + PATIENCE_S
            return
        ends = self._ends.take()
        if ends is None:
            return
        self._look_at_s = now_s + PATIENCE_S
        if stalls := self._watch.stalled(now_s, positions, ends):
            self._restart(stalls)

    def _restart(self, stalls: Sequence[Stall]) -> None:
        for stall in stalls:
            self._log.warning(
                "partition stalled, restarting the fetch",
                topic=stall.partition.topic, partition=stall.partition.partition, position=stall.position,
                end=stall.end, silent_s=round(stall.silent_s, 1),
            )  # fmt: skip
        self._watch.restarted()
        self._renew()

    def _renew(self) -> None:
        """Fetch with a new client, from the positions of the old one, which may be stuck."""
        with broker_errors("fetch again", self._address):
            client = Consumer(self._settings)
            self._fetcher.close()
            # A client in such a state may take long to close.
            threading.Thread(target=self._client.close, name="close-consumer", daemon=True).start()
            self._client = client
            self._fetcher = open_fetcher(self._client, self._overrides)
            self._client.incremental_assign([Tpo(*tp, offset) for tp, offset in self._positions.items()])
            self._client.pause([Tpo(*tp) for tp in self._paused & self._positions.keys()])

    def _at_end(self, event: Event) -> None:
        tp = TopicPartition(event.topic or "", event.partition)
        if tp in self._positions:
            self._positions[tp] = event.offset
            self._heard.add(tp)
            self._drained.add(tp)
            self._watch.at_end(tp)

    def _failed(self, event: Event) -> None:
        error, tp = event.error, TopicPartition(event.topic or "", event.partition)
        message = error_text(error)
        if error.code() in POSITION_LOST:
            if tp in self._positions:
                self._lost.add(tp)
                self._wait_for_seek.add(tp)
        elif error.code() in MISSING_TOPIC:
            self._missing.note(tp.topic, message)
        elif error.code() in RETRIABLE or error.code() in UNREACHABLE:
            self._log.warning("retriable fetch error", partition=str(tp), error=message)
        else:
            what = f"cannot read partition {tp.partition} of topic {tp.topic!r}: {message}"
            if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise KafkaRefusedError(f"{what}: grant this client the operation Read on it (ACLs)")
            raise StreamsError(what)

    @override
    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    @override
    def end_offset(self, partition: TopicPartition) -> int | None:
        """For a reader of committed records it is the last stable offset, as in Kafka Streams."""
        watermark = self._watermark(partition)
        # librdkafka keeps the watermark of a partition that was assigned before, however long ago. It forgets it when
        # a leader answers with an error.
        if partition not in self._heard or watermark < 0:
            return None
        if self._stable is not None and partition in self._drained and watermark > self._positions[partition]:
            # It was read to its end, and all that was written since may be an open transaction: no reason to wait. A
            # paused partition is not fetched, so its watermark does not change.
            stable = self._stable.end(partition, -1 if partition in self._paused else watermark)
            if stable is not None and stable <= self._positions[partition]:
                return self._positions[partition]
        return watermark

    def _watermark(self, partition: TopicPartition) -> int:
        _, high = self._client.get_watermark_offsets(Tpo(*partition), cached=True)
        return high

    @override
    def fetch_end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Sends one request per broker."""
        return self._ask_offsets(dict.fromkeys(partitions, END))

    @override
    def fetch_beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Sends one request per broker."""
        return self._ask_offsets(dict.fromkeys(partitions, BEGINNING))

    @override
    def fetch_offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Sends one request per broker."""
        # librdkafka returns END if there is no such record.
        return {tp: offset for tp, offset in self._ask_offsets(times).items() if offset >= 0}

    def _ask_offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        # ListOffsets takes END and BEGINNING where it takes a time.
        asked = [Tpo(*tp, time_ms) for tp, time_ms in times.items()]
        if not asked:
            return {}

        def ask() -> dict[TopicPartition, int]:
            answers = self._client.offsets_for_times(asked, REQUEST_TIMEOUT_S)
            return {TopicPartition(each.topic, each.partition): _offset_of(each) for each in answers}

        with self._asking("ask for offsets"):
            return of_the_leaders(self._client, ask)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Like :func:`broker_errors`, but replaces a client that has no answer for long and may be stuck. A task that
        cannot start asks repeatedly, and ``poll``, which would notice, is not called meanwhile."""
        try:
            with broker_errors(what, self._address):
                yield
        except BrokerUnreachableError as error:
            now_s = time.monotonic()
            if self._unanswered_s is None:
                self._unanswered_s = now_s
            elif now_s - self._unanswered_s >= _ANSWER_PATIENCE_S:
                self._log.warning("no answer from the broker, retrying with a new client", error=str(error))
                self._unanswered_s = now_s
                self._renew()
            raise
        self._unanswered_s = None

    @override
    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        asked = [Tpo(*tp) for tp in partitions]
        if not asked:
            return {}
        with self._asking("fetch committed offsets"):
            return committed_offsets(self._client.committed(asked, REQUEST_TIMEOUT_S), self._address)

    @override
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """librdkafka drops what it has fetched of them, so pause rarely."""
        asked = set(partitions)
        self._client.pause([Tpo(*tp) for tp in asked])
        self._paused |= asked
        self._watch.forget(asked)

    @override
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        asked = set(partitions)
        self._client.resume([Tpo(*tp) for tp in asked])
        self._paused -= asked

    @override
    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._ends.close()
            self._fetcher.close()
            self._client.close()


def _offset_of(answer: Tpo) -> int:
    if answer.error is not None:
        what = f"partition {answer.partition} of topic {answer.topic!r}: {answer.error.str()}"
        raise KafkaException(KafkaError(answer.error.code(), what))
    return checked_offset(answer.offset)
