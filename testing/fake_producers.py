"""The producers of :class:`~penstock.testing.fake_broker.FakeBroker`."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from typing_extensions import override

from penstock.common.errors import (
    BrokerUnreachableError,
    MissingTopicError,
    RecordRefusedError,
    StreamsError,
)
from penstock.common.ids import Offsets, TopicPartition
from penstock.common.records import SENT_NOW, Headers
from penstock.kafka.contracts import (
    CountingSender,
    Mark,
    RecordProducer,
    RefusedRecord,
    TransactionAbortedError,
    TransactionalProducer,
    UndeliveredError,
)
from penstock.kafka.counting import PlainCountingSender
from penstock.kafka.refusals import late
from penstock.testing.fake_broker import MAX_RECORD_BYTES, FakeBroker, FakeRecord, FakeTransaction, TransactionState


class _FakeMark(Mark):
    """:class:`~penstock.kafka.contracts.Mark`: delivered is what ``poll`` and ``flush`` have written."""

    def __init__(self, before: _FakeMark | None) -> None:
        self.waiting = 0
        self._before = before
        self._ends: dict[TopicPartition, int] = {}

    def acknowledge(self, partition: TopicPartition, offset: int) -> None:
        """One of the mark's records was written."""
        self.waiting -= 1
        if partition.partition >= 0 and offset >= 0:
            self._ends[partition] = max(offset + 1, self._ends.get(partition, 0))

    @override
    def delivered(self) -> bool:
        if self._before is not None and self._before.delivered():
            self._before = None
        return self._before is None and self.waiting == 0

    @override
    def ends(self) -> dict[TopicPartition, int]:
        return dict(self._ends)


class FakeProducer(RecordProducer):
    """:class:`~penstock.kafka.contracts.RecordProducer` on a fake broker; what is queued arrives by poll or flush.

    ``most_at_once``: number of records that arrive by one poll or flush; None is all. ``offsets_unknown``: what arrives
    is acknowledged as a batch that the broker had already, whose records librdkafka numbers from −1.
    """

    def __init__(self, broker: FakeBroker) -> None:
        self.most_at_once: int | None = None
        self.offsets_unknown = False
        self._broker = broker
        self._counts: dict[str, int] = {}
        self._queue: deque[tuple[str, FakeRecord, int, _FakeMark]] = deque()
        self._failure: StreamsError | None = None
        self._refused: list[RefusedRecord] = []
        self._open = _FakeMark(None)
        self._transaction: FakeTransaction | None = None
        self._withheld = False

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
        # Time 0 becomes 1 ms, as the real client must do it.
        timestamp = int(time.time() * 1000) if timestamp == SENT_NOW else timestamp or 1
        if len(key or b"") + len(value or b"") > MAX_RECORD_BYTES:
            raise RecordRefusedError("the record is too large", topic=topic, partition=partition, key=key)
        if self._withheld:
            raise self._withdraw(topic)
        self._queue.append(
            (topic, FakeRecord(key, value, timestamp, headers, self._transaction), partition, self._open)
        )
        self._open.waiting += 1

    @override
    def poll(self) -> None:
        if self._failure is None and not self._broker.answers:
            return
        numbers: Counter[TopicPartition] = Counter()
        waiting = len(self._queue)
        for _ in range(waiting if self.most_at_once is None else min(waiting, self.most_at_once)):
            topic, record, partition, mark = self._queue.popleft()
            tp = TopicPartition(topic, partition)
            try:
                offset = self._broker.append(topic, record, partition)
                mark.acknowledge(tp, numbers[tp] - 1 if self.offsets_unknown else offset)
                numbers[tp] += 1
            except StreamsError as error:
                self._failure = self._failure or late(error)
                if isinstance(error, RecordRefusedError):
                    self._refused.append(RefusedRecord(topic, partition, record.key, record.value))
        if self._failure is not None:
            raise self._failure

    @override
    def take_refused(self) -> list[RefusedRecord]:
        taken, self._refused = self._refused, []
        return taken

    @override
    def flush(self, timeout_s: float) -> bool:
        self.poll()
        return not self._queue

    @override
    def give_up(self, timeout_s: float) -> bool:
        self._queue.clear()
        self._failure = None
        self._refused.clear()
        self._open = _FakeMark(None)
        return True

    @override
    def withhold(self) -> None:
        self._withheld = True
        if self._queue:
            self._withdraw(self._queue[0][0])
            self._queue.clear()

    @override
    def resume(self) -> None:
        self._withheld = False

    def _withdraw(self, topic: str) -> StreamsError:
        error = UndeliveredError(f"a record for topic {topic!r} was withdrawn before a broker acknowledged it")
        self._failure = self._failure or error
        return error

    @override
    def mark(self) -> Mark:
        closed, self._open = self._open, _FakeMark(self._open)
        return closed

    @override
    def counting(self) -> CountingSender:
        return PlainCountingSender(self.send)

    @override
    def unknown_topics(self, topics: Iterable[str]) -> frozenset[str]:
        there = self._broker.topics()
        return frozenset(topic for topic in topics if topic not in self._counts and topic not in there)

    @override
    def partitions(self, topic: str) -> int:
        # Asked once per topic.
        count = self._counts.get(topic) or self._broker.topics().get(topic)
        if count is None:
            raise MissingTopicError(f"topic {topic!r} does not exist: create it before it is written")
        self._counts[topic] = count
        return count

    def expire(self) -> None:
        """``message.timeout.ms`` has passed for all that is queued."""
        if self._queue:
            topic = self._queue[0][0]
            self._failure = UndeliveredError(f"no broker took a record for topic {topic!r} within message.timeout.ms")
            self._queue.clear()

    @override
    def close(self) -> None:
        self._queue.clear()


class FakeTransactionalProducer(FakeProducer, TransactionalProducer):
    """:class:`~penstock.kafka.contracts.TransactionalProducer` on a fake broker."""

    answers_within_s = 15.0

    def __init__(self, broker: FakeBroker, group: str, transactional_id: str) -> None:
        super().__init__(broker)
        self._group = group
        self._id = transactional_id
        self._epoch = -1

    @override
    def init_transactions(self) -> Future[None]:
        return _done(self._init)

    def _init(self) -> None:
        self._epoch = self._broker.init_producer(self._id)

    @override
    def begin_transaction(self) -> None:
        self._queue.clear()
        self._failure = None
        self._refused.clear()
        self._open = _FakeMark(None)
        self._transaction = self._broker.begin(self._id, self._epoch)

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
        if self._transaction is None:
            raise TransactionAbortedError(f"a record for topic {topic!r} was not written: no transaction is open")
        super().send(topic, key, value, timestamp, headers, partition)

    @override
    def commit_transaction(self, offsets: Offsets, group_metadata: bytes) -> Future[None]:
        return _done(lambda: self._end(TransactionState.COMMITTED, offsets, group_metadata))

    @override
    def abort_transaction(self) -> Future[None]:
        return _done(self._abort)

    def _abort(self) -> None:
        self._queue.clear()
        self._failure = None
        try:
            self._end(TransactionState.ABORTED, {}, b"")
        except TransactionAbortedError as error:
            raise TransactionAbortedError(str(error), producer_is_spent=True) from error

    def _end(self, state: TransactionState, offsets: Offsets, group_metadata: bytes) -> None:
        if self._transaction is None:
            raise TransactionAbortedError("no transaction is open", producer_is_spent=True)
        try:
            self.poll()
            self._broker.end(self._transaction, state, self._group, offsets, group_metadata)
        except BrokerUnreachableError as error:
            raise TransactionAbortedError(str(error), producer_is_spent=True) from error
        self._transaction = None


def _done(call: Callable[[], None]) -> Future[None]:
    done: Future[None] = Future()
    try:
        call()
    except StreamsError as error:
        done.set_exception(error)
    else:
        done.set_result(None)
    return done
