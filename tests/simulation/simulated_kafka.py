"""The in-memory Kafka as one process sees it: over a connection that may be cut, with answers that take their time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, cast

from typing_extensions import override

from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import Offsets, TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.records import RecordBatch
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import Admin, GroupMember, RecordConsumer, RecordProducer, TransactionAbortedError
from penstock.kafka.contracts import TransactionalProducer as TransactionalProducerContract
from penstock.testing.fake_broker import FakeBroker, FakeLog, FakeRecord, FakeTransaction, TransactionState
from penstock.testing.fake_clients import FakeAdmin, FakeConsumer
from penstock.testing.fake_producers import FakeProducer, FakeTransactionalProducer

if TYPE_CHECKING:
    from tests.simulation.world import World

MESSAGE_TIMEOUT_S = 120.0
TRANSACTION_TIMEOUT_S = 10.0
REQUEST_S = 10.0
"""A request without an answer keeps its thread waiting for so long."""
_INIT_S, _COMMIT_S, _ABORT_S = 10.0, 10.0, 5.0
_ASK_AGAIN_S = 0.5
_LONGEST_FLUSH_S = 0.05
ASKING = frozenset(
    {
        "topics",
        "topic_config",
        "topic_ids",
        "create_topic",
        "delete_topic",
        "delete_records",
        "init_producer",
        "end",
        "group",
    }
    | {"committed", "join", "commit_from_outside", "range_assignment", "log"}
)
"""The calls that fail if the broker does not answer."""
LOCAL = frozenset({"answers", "changed", "begin", "metadata", "append"})
"""Calls that do not ask the broker, and ``append``, before which a producer looks if the broker answers.
A client makes no others."""


class SimulatedBroker(FakeBroker):
    """Its partitions may be without a leader for a while, and it aborts transactions that are open for too long."""

    def __init__(self, now: Callable[[], float], moves_partitions: bool) -> None:
        super().__init__()
        self._moves_partitions = moves_partitions
        self.leaderless: set[TopicPartition] = set()
        self._now = now
        self._open_since: dict[str, tuple[FakeTransaction, float]] = {}

    @override
    def append(self, topic: str, record: FakeRecord, partition: int = -1) -> int:
        offset = super().append(topic, record, partition)
        transaction = record.transaction
        if (
            transaction is not None
            and self._open_since.get(transaction.transactional_id, (None, 0))[0] is not transaction
        ):
            self._open_since[transaction.transactional_id] = transaction, self._now()
        return offset

    @override
    def range_assignment(self, group: str, instance: str) -> frozenset[TopicPartition]:
        if not self._moves_partitions:
            return super().range_assignment(group, instance)
        joined = self.group(group)
        members = sorted(joined.subscriptions)
        return super().range_assignment(
            group, members[(members.index(instance) + joined.generation // 2) % len(members)]
        )

    def abort_expired(self) -> None:
        """Aborts transactions that are open for too long, as a broker does, and fences their producers."""
        for transactional_id, (transaction, since_s) in list(self._open_since.items()):
            is_open = transaction.state is TransactionState.OPEN
            if not is_open or self._now() - since_s > TRANSACTION_TIMEOUT_S:
                del self._open_since[transactional_id]
                if is_open:
                    self.init_producer(transactional_id)


class Place(Protocol):
    """The process that a client lives in."""

    rng: Random
    world: World

    @property
    def reaches_broker(self) -> bool:
        """True if its network reaches the broker."""

    @property
    def exists(self) -> bool:
        """True if the process has not ended."""

    def block(self, seconds: float) -> None:
        """Its thread waits for an answer that does not come."""

    def portion(self, waiting: int) -> int:
        """Returns how many of its waiting records the broker takes at once."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> object:
        """Runs ``work`` beside its thread; it ends with the process."""

    async def sleep(self, seconds: float) -> None:
        """Waits in virtual time."""

    def now(self) -> float:
        """Returns the virtual time."""


class Wire:
    """A :class:`FakeBroker` as ``place`` sees it."""

    def __init__(self, broker: SimulatedBroker, place: Place) -> None:
        self._broker, self._place = broker, place

    def __getattr__(self, name: str) -> Any:
        if name in ASKING:
            self._answering()
        elif name not in LOCAL:
            raise AttributeError(f"{name} is neither of the calls that ask the broker nor of those that do not")
        return getattr(self._broker, name)

    @property
    def answers(self) -> bool:
        return self._broker.answers and self._place.reaches_broker

    def _answering(self) -> None:
        if not self.answers:
            self._place.block(REQUEST_S * self._place.rng.random())
            raise BrokerUnreachableError("no broker answers")

    def has_leader(self, partition: TopicPartition) -> bool:
        return partition not in self._broker.leaderless

    def log(self, partition: TopicPartition) -> FakeLog:
        self._answering()
        if not self.has_leader(partition):
            self._place.block(REQUEST_S * self._place.rng.random())
            raise BrokerUnreachableError(f"{partition} has no leader")
        return self._broker.log(partition)


def _as_broker(wire: Wire) -> FakeBroker:
    return cast("FakeBroker", wire)


class SimulatedConsumer(FakeConsumer):
    """Fetches nothing of partitions without a leader."""

    def __init__(self, wire: Wire, group: str, read_committed: bool, largest_fetch: int) -> None:
        super().__init__(_as_broker(wire), group, read_committed)
        self._wire, self._largest_fetch = wire, largest_fetch

    @override
    def poll(self, max_records: int, timeout_s: float) -> list[RecordBatch]:
        away = {tp for tp in self._positions if not self._wire.has_leader(tp)} - self._stuck
        self._stuck |= away
        try:
            return self._take(min(max_records, self._largest_fetch))
        finally:
            self._stuck -= away

    @override
    def end_offset(self, partition: TopicPartition) -> int | None:
        if not self._wire.has_leader(partition):
            return self._ends.get(partition)
        return super().end_offset(partition)


class SimulatedProducer(FakeProducer):
    """Keeps what cannot be delivered until ``message.timeout.ms`` has passed; delivers in portions."""

    _timeout_s = MESSAGE_TIMEOUT_S

    def __init__(self, wire: Wire, place: Place) -> None:
        super().__init__(_as_broker(wire))
        self._wire, self._place = wire, place
        self._undelivered_since: float | None = None

    @override
    def poll(self) -> None:
        waiting = len(self._queue)
        if self._failure is None and waiting and self._wire.answers:
            self._deliver(self._place.portion(waiting))
        if len(self._queue) < waiting or not self._queue:
            self._undelivered_since = None
        elif self._undelivered_since is None:
            self._undelivered_since = self._place.now()
        elif self._place.now() - self._undelivered_since > self._timeout_s:
            self._undelivered_since = None
            self.expire()
        if self._failure is not None:
            raise self._failure

    @override
    def flush(self, timeout_s: float) -> bool:
        if not super().flush(timeout_s):
            self._place.block(self._place.rng.uniform(timeout_s, _LONGEST_FLUSH_S))
            return False
        return True

    def _deliver(self, at_most: int) -> None:
        kept: deque[Any] = deque()
        for _ in range(at_most):
            topic, record, partition, mark = self._queue.popleft()
            chosen = partition if partition >= 0 or record.key is None else self._partition(topic, record.key)
            tp = TopicPartition(topic, chosen)
            if not self._wire.has_leader(tp):
                kept.append((topic, record, partition, mark))
                continue
            try:
                mark.acknowledge(TopicPartition(topic, partition), self._broker.append(topic, record, chosen))
                if record.transaction is None:
                    self._place.world.writers.wrote(tp, self._place)
            except StreamsError as error:
                self._failure = self._failure or error
        self._queue.extendleft(reversed(kept))

    def _partition(self, topic: str, key: bytes) -> int:
        count = self._counts.get(topic) or self._broker.topics().get(topic, 1)
        return partition_for(key, count)


class Answer(Future[None]):
    """The answer to a request of a producer. Virtual time does not advance while a caller waits in the loop's thread:
    then the request is carried out at once, if it can be."""

    def __init__(self, hurry: Callable[[Future[None]], None]) -> None:
        super().__init__()
        self._hurry = hurry

    @override
    def result(self, timeout: float | None = None) -> None:
        if not self.done():
            self._hurry(self)
        return super().result(0.0)


class SimulatedTransactionalProducer(SimulatedProducer, FakeTransactionalProducer):
    """Requests to the broker run beside the loop: the request travels, and so does the answer."""

    _timeout_s = TRANSACTION_TIMEOUT_S

    def __init__(self, wire: Wire, place: Place, group: str, transactional_id: str) -> None:
        FakeTransactionalProducer.__init__(self, _as_broker(wire), group, transactional_id)
        self._wire, self._place = wire, place
        self._undelivered_since = None

    @override
    def expire(self) -> None:
        self._queue.clear()
        self._failure = TransactionAbortedError("records not delivered within message.timeout.ms")

    @override
    def init_transactions(self) -> Future[None]:
        return self._ask(self._init, _INIT_S, BrokerUnreachableError("the transactional id is not taken"))

    @override
    def commit_transaction(self, offsets: Offsets, group_metadata: bytes) -> Future[None]:
        late = TransactionAbortedError("no answer to a commit", producer_is_spent=True)
        commit = lambda: self._end(TransactionState.COMMITTED, offsets, group_metadata)  # noqa: E731
        return self._ask(commit, _COMMIT_S, late, self._all_is_delivered)

    @override
    def abort_transaction(self) -> Future[None]:
        return self._ask(self._abort, _ABORT_S, TransactionAbortedError("not aborted", producer_is_spent=True))

    def _all_is_delivered(self) -> bool:
        self.poll()
        return not self._queue

    def _ask(
        self, call: Callable[[], None], within_s: float, late: StreamsError, first: Callable[[], bool] = lambda: True
    ) -> Future[None]:
        def hurry(asked: Future[None]) -> None:
            if self._wire.answers and first():
                _carry_out(call, asked)

        done = Answer(hurry)
        self._place.spawn(self._carry(call, self._place.now() + within_s, late, first, done))
        return done

    async def _carry(
        self, call: Callable[[], None], until_s: float, late: StreamsError, first: Callable[[], bool], done: Answer
    ) -> None:
        place = self._place
        arrived: Future[None] = Future()
        while not arrived.done():
            await place.sleep(place.rng.uniform(0.001, 0.02))
            if done.done():
                return  # it was in a hurry
            try:
                ready = self._wire.answers and first()
            except StreamsError as error:
                arrived.set_exception(error)
                break
            if ready:
                _carry_out(call, arrived)
            elif place.now() >= until_s:
                arrived.set_exception(late)
            else:
                await place.sleep(_ASK_AGAIN_S)
        await place.sleep(place.rng.uniform(0.001, 0.02))
        if not self._wire.answers and place.now() < until_s:  # the answer is lost
            await place.sleep(until_s - place.now())
            arrived = Future()
            arrived.set_exception(late)
        if done.done():
            return
        if (failed := arrived.exception()) is not None:
            done.set_exception(failed)
        else:
            done.set_result(None)


def _carry_out(call: Callable[[], None], done: Future[None]) -> None:
    try:
        call()
    except StreamsError as error:
        done.set_exception(error)
    else:
        done.set_result(None)


class SimulatedClients(KafkaClients):
    """:class:`KafkaClients` of one process."""

    def __init__(self, broker: SimulatedBroker, place: Place, group: str, read_committed: bool) -> None:
        self.broker, self.group = broker, group
        self._place, self._read_committed = place, read_committed
        self._wire = Wire(broker, place)

    @override
    def consumer(self) -> RecordConsumer:
        return SimulatedConsumer(self._wire, self.group, self._read_committed, self._place.world.swarm.largest_fetch)

    @override
    def restore_consumer(self) -> RecordConsumer:
        return self.consumer()

    @override
    def producer(self) -> RecordProducer:
        return SimulatedProducer(self._wire, self._place)

    @override
    def transactional_producer(self, transactional_id: str) -> TransactionalProducerContract:
        return SimulatedTransactionalProducer(self._wire, self._place, self.group, transactional_id)

    @override
    def admin(self) -> Admin:
        return FakeAdmin(_as_broker(self._wire))

    @override
    def group_member(self, instance: str) -> GroupMember:
        raise NotImplementedError("the group is simulated by simulated_group.py")
