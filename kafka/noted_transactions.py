"""A producer that holds one ``transactional.id``, as a ``with`` block; its transactions note their progress in a
topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import NamedTuple

from penstock.common.errors import StreamsError
from penstock.common.records import SENT_NOW
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import TransactionAbortedError, TransactionalProducer


class ProgressRecord(NamedTuple):
    """A record of a progress topic."""

    key: bytes
    value: bytes


class Transactions:
    """The transactions of one producer: records, and with them the progress that they make."""

    def __init__(self, producer: TransactionalProducer, progress_topic: str, clock: Callable[[], float]) -> None:
        self.producer = producer
        self._topic = progress_topic
        self._clock = clock
        self._asked: Future[None] | None = None
        self._begun_s: float | None = None
        self._noted: dict[bytes, ProgressRecord] = {}

    def take_id(self) -> None:
        """Take the id: what its last owner has not committed is aborted."""
        self._answered(self.producer.init_transactions())

    def begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if self._begun_s is None:
            self.producer.begin_transaction()
            self._begun_s = self._clock()

    def note(self, record: ProgressRecord) -> None:
        """Take progress into the transaction, in the place of that with the same key: all records up to there must have
        been sent."""
        self.begin()
        self._noted[record.key] = record

    @property
    def is_open(self) -> bool:
        """True if a transaction has begun."""
        return self._begun_s is not None

    def open_for_s(self) -> float:
        """Returns the seconds since the transaction began; 0 if none is open."""
        return 0.0 if self._begun_s is None else self._clock() - self._begun_s

    def commit(self, further: Iterable[ProgressRecord] = ()) -> None:
        """Commit the open transaction, if there is one, with the progress that was noted and ``further`` records of the
        progress topic."""
        for record in further:
            self._send(record)
        if self._begun_s is None:
            return
        for record in self._noted.values():
            self._send(record)
        self._answered(self.producer.commit_transaction({}, b""))
        self._begun_s = None
        self._noted.clear()

    def _send(self, record: ProgressRecord) -> None:
        self.begin()
        self.producer.send(self._topic, record.key, record.value, SENT_NOW, None, 0)

    def close(self) -> None:
        """Abort what is open, so that it holds up no reader, and close the producer."""
        if self._asked is not None and not self._asked.done():
            # A client must not be destroyed during a call.
            self._asked.add_done_callback(lambda _: self.producer.close())
            return
        if self._begun_s is not None:
            with suppress(StreamsError):
                self._answered(self.producer.abort_transaction())
        if self._asked is None or self._asked.done():
            self.producer.close()

    def _answered(self, asked: Future[None]) -> None:
        self._asked = asked
        try:
            asked.result(self.producer.answers_within_s)
        except TimeoutError:
            raise TransactionAbortedError(
                f"librdkafka has not answered for {self.producer.answers_within_s:.0f} s", producer_is_spent=True
            ) from None


@contextmanager
def transactions(
    clients: KafkaClients, transactional_id: str, progress_topic: str, clock: Callable[[], float] = time.monotonic
) -> Iterator[Transactions]:
    """Yields the transactions of ``transactional_id``, which is taken. What is not committed at the end is aborted."""
    held = Transactions(clients.transactional_producer(transactional_id), progress_topic, clock)
    try:
        held.take_id()
        yield held
    finally:
        held.close()
