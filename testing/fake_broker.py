"""A Kafka broker in memory: topics, logs, groups and offsets, as far as :mod:`penstock.kafka.contracts` asks for them.

It keeps no time of its own: a static member that closes or dies stays in its group, and its session never times out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from penstock.common.errors import (
    ApplicationStateError,
    BrokerUnreachableError,
    MissingTopicError,
    ProductionError,
    RecordRefusedError,
    StreamsError,
)
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.records import Headers
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import TransactionAbortedError

MAX_RECORD_BYTES = 1_048_588
"""A broker's default of ``max.message.bytes``."""


class TransactionState(Enum):
    """The life of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(eq=False)
class FakeTransaction:
    """Records that one producer writes between a beginning and an end; ``epoch`` is its producer's."""

    transactional_id: str
    epoch: int
    state: TransactionState = TransactionState.OPEN
    partitions: set[TopicPartition] = field(default_factory=set)


@dataclass(frozen=True)
class FakeRecord:
    """One record of a log, or the marker of a transaction's end, which is an offset that no reader sees."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers | None
    transaction: FakeTransaction | None = field(default=None, compare=False)
    is_marker: bool = False

    @property
    def is_open(self) -> bool:
        """True if its transaction has not ended."""
        return self.transaction is not None and self.transaction.state is TransactionState.OPEN

    @property
    def is_committed(self) -> bool:
        """True if a reader of committed records gets it."""
        return not self.is_marker and (self.transaction is None or self.transaction.state is TransactionState.COMMITTED)


@dataclass
class FakeLog:
    """One partition: ``records[0]`` has offset ``beginning``."""

    records: list[FakeRecord] = field(default_factory=list)
    beginning: int = 0
    _closed_to: int = 0
    """No record before this offset is of an open transaction."""

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self.beginning + len(self.records)

    @property
    def stable_end(self) -> int:
        """The last stable offset: the first offset of the first transaction that is open."""
        offset = min(max(self._closed_to, self.beginning), self.end)
        while offset < self.end and not self.records[offset - self.beginning].is_open:
            offset += 1
        self._closed_to = offset  # a transaction that has ended stays so
        return offset


@dataclass
class FakeGroup:
    """A group of static members: ``subscriptions`` by instance id; ``incarnations`` counts the owners of each id."""

    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    subscriptions: dict[str, frozenset[str]] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    generation: int = 0


class FakeBroker:
    """All state of the broker, behind one lock. ``down`` makes every call fail as if nothing answered, ``error`` makes
    it fail with that error; what a real client does in the background, such as fetching, then does not happen."""

    address = "fake:9092"

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.down = False
        self.error: StreamsError | None = None
        self._topics: dict[str, list[FakeLog]] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self._topic_ids: dict[str, str] = {}
        self._created = 0
        self._groups: dict[str, FakeGroup] = {}
        self._keyless = 0
        self._producers: dict[str, tuple[int, FakeTransaction | None]] = {}
        self.loses_answers = False
        """Ends of transactions count, but no client learns of them."""

    # ---- topics ----

    @property
    def answers(self) -> bool:
        """True if calls succeed."""
        return not self.down and self.error is None

    def _answering(self) -> None:
        if self.error is not None:
            raise self.error
        if self.down:
            raise BrokerUnreachableError(f"no broker answers at {self.address}: start it, or fix bootstrap.servers")

    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions."""
        with self.changed:
            self._answering()
            return {name: len(logs) for name, logs in self._topics.items()}

    def topic_config(self, topic: str) -> dict[str, str]:
        """Returns the settings with which ``topic`` was created."""
        with self.changed:
            self._answering()
            return dict(self._configs[topic])

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Returns the ids of those of ``topics`` that there are."""
        with self.changed:
            self._answering()
            return {name: self._topic_ids[name] for name in topics if name in self._topic_ids}

    def create_topic(self, topic: NewTopic) -> None:
        """Create, unless it is there."""
        with self.changed:
            self._answering()
            if topic.name not in self._topics:
                self._topics[topic.name] = [FakeLog() for _ in range(topic.partitions)]
                self._configs[topic.name] = dict(topic.config)
                self._created += 1
                self._topic_ids[topic.name] = f"topic-{self._created}"
                self.changed.notify_all()

    def delete_topic(self, name: str) -> None:
        """Delete, if it is there."""
        with self.changed:
            self._answering()
            self._topics.pop(name, None)
            self._configs.pop(name, None)
            self._topic_ids.pop(name, None)

    def log(self, partition: TopicPartition) -> FakeLog:
        """The log of ``partition``. Raises MissingTopicError. Hold ``changed`` while looking into it."""
        self._answering()
        logs = self._topics.get(partition.topic)
        if logs is None or not 0 <= partition.partition < len(logs):
            raise MissingTopicError(
                f"there is no partition {partition.partition} of topic {partition.topic!r}: create it"
            )
        return logs[partition.partition]

    def records(self, topic: str) -> list[FakeRecord]:
        """Every record of ``topic`` that is committed, partition by partition: what a test looks at."""
        with self.changed:
            return [record for log in self._topics[topic] for record in log.records if record.is_committed]

    def uncommitted_records(self, topic: str) -> list[FakeRecord]:
        """Every record of ``topic``, partition by partition, those of transactions that are open or aborted too."""
        with self.changed:
            return [record for log in self._topics[topic] for record in log.records if not record.is_marker]

    def append(self, topic: str, record: FakeRecord, partition: int = -1) -> int:
        """Write one record; partition −1 goes by murmur2 of the key, or in turn without one. Returns its offset. Raises
        ProductionError."""
        with self.changed:
            self._answering()
            logs = self._topics.get(topic)
            if logs is None:
                raise _refused("the topic does not exist: create the topic", topic, partition, record)
            if partition >= len(logs):
                raise _refused("the topic has no such partition", topic, partition, record)
            limit = int(self._configs[topic].get("max.message.bytes", MAX_RECORD_BYTES))
            if len(record.key or b"") + len(record.value or b"") > limit:
                what = "the record is larger than the topic's max.message.bytes"
                raise _refused(what, topic, partition, record, RecordRefusedError)
            if partition < 0:
                partition = self._choose(record.key, len(logs))
            if record.transaction is not None:
                self._check_epoch(record.transaction)
                record.transaction.partitions.add(TopicPartition(topic, partition))
            logs[partition].records.append(record)
            self.changed.notify_all()
            return logs[partition].end - 1

    def _choose(self, key: bytes | None, partitions: int) -> int:
        if key is not None:
            return partition_for(key, partitions)
        self._keyless += 1
        return self._keyless % partitions

    def delete_records(self, partition: TopicPartition, before: int) -> None:
        """Drop the records before offset ``before``."""
        with self.changed:
            log = self.log(partition)
            if before > log.end:
                raise StreamsError(f"cannot delete records of {partition} before {before}: its end is {log.end}")
            log.records = log.records[max(0, before - log.beginning) :]
            log.beginning = max(log.beginning, before)

    # ---- transactions ----

    def init_producer(self, transactional_id: str) -> int:
        """Returns the next epoch of the id: the producer that had it is fenced, and its transaction aborted."""
        with self.changed:
            self._answering()
            return self._fence(transactional_id)

    def begin(self, transactional_id: str, epoch: int) -> FakeTransaction:
        """Returns a transaction, of which the broker hears with its first record."""
        with self.changed:
            transaction = FakeTransaction(transactional_id, epoch)
            if self._producers.get(transactional_id, (-1, None))[0] == epoch:
                self._producers[transactional_id] = epoch, transaction
            return transaction

    def end(
        self,
        transaction: FakeTransaction,
        state: TransactionState,
        group: str = "",
        offsets: Mapping[TopicPartition, CommittedOffset] = MappingProxyType({}),
        group_metadata: bytes = b"",
    ) -> None:
        """Commit it, with ``offsets`` of ``group``, or abort it. Raises TransactionAbortedError."""
        with self.changed:
            self._answering()
            self._check_epoch(transaction)
            if offsets and group_metadata not in self._metadata_now(group):
                raise TransactionAbortedError(f"group {group!r} refuses the offsets: the generation has passed")
            self._end(transaction, state)
            self.group(group).offsets.update(offsets)
            if self.loses_answers:
                raise TransactionAbortedError("no answer to the end of a transaction", producer_is_spent=True)

    def expire_transactions(self) -> None:
        """Abort each that is open, as if ``transaction.timeout.ms`` had passed: their producers are fenced."""
        with self.changed:
            for transactional_id, (_, open_one) in list(self._producers.items()):
                if open_one is not None and open_one.partitions:
                    self._fence(transactional_id)

    def forget_producers(self) -> None:
        """Forget all ids, as if ``transactional.id.expiration.ms`` had passed: their producers are fenced."""
        with self.changed:
            self.expire_transactions()
            self._producers.clear()

    def _fence(self, transactional_id: str) -> int:
        epoch, open_one = self._producers.get(transactional_id, (-1, None))
        if open_one is not None:
            self._end(open_one, TransactionState.ABORTED)
        self._producers[transactional_id] = epoch + 1, None
        return epoch + 1

    def _check_epoch(self, transaction: FakeTransaction) -> None:
        known = self._producers.get(transaction.transactional_id)
        if known != (transaction.epoch, transaction):
            raise TransactionAbortedError(
                f"the producer of {transaction.transactional_id!r} is fenced", producer_is_spent=True
            )

    def _end(self, transaction: FakeTransaction, state: TransactionState) -> None:
        transaction.state = state
        self._producers[transaction.transactional_id] = transaction.epoch, None
        for topic, partition in sorted(transaction.partitions):
            marker = FakeRecord(None, None, 0, None, transaction, is_marker=True)
            self._topics[topic][partition].records.append(marker)
        self.changed.notify_all()

    def _metadata_now(self, group: str) -> set[bytes]:
        return {self.metadata(group, instance, number) for instance, number in self.group(group).incarnations.items()}

    def metadata(self, group: str, instance: str, incarnation: int) -> bytes:
        """Returns what the owner of an instance id shows, so that the group takes its offsets."""
        with self.changed:  # known without asking
            return f"{group}/{instance}/{incarnation}/{self._groups[group].generation}".encode()

    # ---- groups ----

    def group(self, name: str) -> FakeGroup:
        """The group ``name``, made when first asked for. Hold ``changed`` while looking into it."""
        self._answering()
        return self._groups.setdefault(name, FakeGroup())

    def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """All offsets of ``group``."""
        with self.changed:
            return dict(self.group(group).offsets)

    def commit_from_outside(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit for a group without members. Raises ApplicationStateError when it has some."""
        with self.changed:
            if self.group(group).subscriptions:
                raise ApplicationStateError(
                    f"cannot commit offsets of group {group!r} from outside while it has members: stop the application"
                )
            self.group(group).offsets.update(offsets)

    def join(self, group: str, instance: str, topics: Iterable[str]) -> int:
        """Join as the static member ``instance``; returns its incarnation. Subscribing as before moves nothing."""
        with self.changed:
            joined = self.group(group)
            wanted = frozenset(topics)
            if joined.subscriptions.get(instance) != wanted:
                joined.subscriptions[instance] = wanted
                joined.generation += 1
            joined.incarnations[instance] = joined.incarnations.get(instance, 0) + 1
            self.changed.notify_all()
            return joined.incarnations[instance]

    def range_assignment(self, group: str, instance: str) -> frozenset[TopicPartition]:
        """Returns what the range assignor gives to ``instance``."""
        with self.changed:
            subscriptions = self.group(group).subscriptions
            mine: set[TopicPartition] = set()
            for topic in subscriptions.get(instance, frozenset()):
                sharing = sorted(other for other, topics in subscriptions.items() if topic in topics)
                each, extra = divmod(len(self._topics.get(topic, ())), len(sharing))
                place = sharing.index(instance)
                first = place * each + min(place, extra)
                mine.update(TopicPartition(topic, p) for p in range(first, first + each + (place < extra)))
            return frozenset(mine)


def _refused(
    what: str, topic: str, partition: int, record: FakeRecord, kind: type[ProductionError] = ProductionError
) -> ProductionError:
    return kind(
        f"the record cannot be written to topic {topic!r}: {what}", topic=topic, partition=partition, key=record.key
    )
