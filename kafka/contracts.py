"""Contracts of the Kafka clients that the rest of penstock uses. The confluent-kafka clients and the fake broker pass
the same tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import ClassVar, NamedTuple, Protocol

from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import CommittedOffset, Offsets, TopicPartition
from penstock.common.measures import Sent
from penstock.common.records import Headers, RecordBatch
from penstock.common.topics import NewTopic
from penstock.kafka.brokers import Brokers

BEGINNING = -2
"""The position of the first offset that exists."""
END = -1
"""The position of the next record that is written."""


DEFAULT_DELETE_RETENTION_MS = 86_400_000
"""The default of ``delete.retention.ms`` in brokers."""


class RecordConsumer(Protocol):
    """Reads assigned partitions, and is no member of a group. For one thread."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions from these offsets (or BEGINNING, END).

        Partitions that stay keep their position and what is fetched already: their value here is ignored.
        """

    def poll(self, max_records: int, timeout_s: float) -> list[RecordBatch]:
        """Returns at most ``max_records`` records, one batch per run of one partition, in the order of their arrival.
        Waits at most ``timeout_s`` when there are none. Raises StreamsError when a partition cannot be read. A
        partition whose position is not in the log gives nothing: see ``lost_positions``."""

    def lost_positions(self) -> dict[TopicPartition, int]:
        """Returns the partitions whose position is not in the log any more, as when retention has deleted the records,
        with that position: those that ``poll`` has found since the last call. They give nothing more until ``seek``."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at ``offset`` of an assigned partition; its fetched records are dropped."""

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that ``poll`` would return; BEGINNING or END until that is known."""

    def end_offset(self, partition: TopicPartition) -> int | None:
        """The partition's end as of the last fetch, without waiting for the broker. For a reader of committed records
        the last stable offset. None before the first fetch since the partition was assigned or ``seek`` was called."""

    def fetch_end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends as of now: asks the broker."""

    def fetch_beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the first offsets that exist now: asks the broker."""

    def fetch_offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns for each partition the first offset whose record has that timestamp (ms) or a later one: asks the
        broker. A partition without such a record is left out."""

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Returns the committed offsets of the application's group; partitions without one are left out. Asks the
        broker."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """``poll`` leaves these out until ``resume``."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo ``pause``."""

    def close(self) -> None:
        """Close the client. Idempotent."""


class Mark(Protocol):
    """The records that were sent between two calls of ``mark``."""

    def delivered(self) -> bool:
        """Returns True if all of these records, and all that were sent before, are acknowledged. Acknowledgements count
        in ``poll`` and ``flush`` at the latest. If a record was refused, this remains False."""

    def ends(self) -> dict[TopicPartition, int]:
        """Returns, for each partition that was given to ``send``, the offset after the last of these records that is
        acknowledged. Markers and the records of other producers do not count. A partition without any is left out.

        If a batch is sent again because an answer was lost, the client does not learn its offsets. Then the partition
        is left out, or its end is too low, perhaps lower than that of an older mark. It is never too high.
        """


class CountingSender(Protocol):
    """Sends through a producer, and counts records and bytes."""

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        """Like :meth:`Sending.send`."""

    def take(self) -> Sent:
        """Returns the totals of all that was sent. Latencies, from a record's timestamp to its ``send`` by the system's
        clock, may be some milliseconds off. Their extremes are those since the last call."""


class RefusedRecord(NamedTuple):
    """A record that a broker has refused because of its content. The partition is the one that was chosen for it.
    Clients do not report its timestamp, and confluent-kafka does not report its headers."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None


class Sending(Protocol):
    """The calls by which tasks send through a producer."""

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        """Queue one record. Partition −1 means Kafka's default partitioner (murmur2), timestamp ``SENT_NOW`` the time
        of this call. Waits while the queue is full. Raises RecordRefusedError when the record can never be sent (too
        large), and what :meth:`RecordProducer.poll` raises about records that were sent before."""

    def partitions(self, topic: str) -> int:
        """Returns the number of partitions of ``topic``. Waits for an unknown topic until 2 s after the first request
        for it. Raises MissingTopicError."""

    def counting(self) -> CountingSender:
        """Returns another way to send, which counts."""


class RecordProducer(Sending, Protocol):
    """Writes records. ``send`` only queues them; ``flush`` waits for the acknowledgements. For one thread."""

    def poll(self) -> None:
        """Let the client handle its events. Raises ProductionError (``late``) if a queued record was refused, and
        UndeliveredError if no broker took it within ``message.timeout.ms``, or the producer cannot continue."""

    def take_refused(self) -> list[RefusedRecord]:
        """Returns the records that brokers have refused because of their content (RecordRefusedError), in the order of
        their reports, since the last call, ``give_up`` or ``begin_transaction``. A broker refuses a batch as a whole
        because of its size, so any of them may be too large."""

    def flush(self, timeout_s: float) -> bool:
        """Wait until all queued records are acknowledged. Returns False after ``timeout_s``. Raises as ``poll``
        does."""

    def mark(self) -> Mark:
        """Returns a mark of all records that were sent since the last call. Later records belong to the next mark."""

    def give_up(self, timeout_s: float) -> bool:
        """Forget all undelivered records, and continue. None of them is written after a record that is sent from now
        on. Marks made before are never delivered. Returns False if the client has not dropped all of them yet."""

    def withhold(self) -> None:
        """Forget all undelivered records, and refuse new ones from now on. Another thread may call it, repeatedly: then
        a ``send`` that waits for room in the queue ends.

        Until ``give_up``, ``poll`` and ``flush`` raise UndeliveredError if a record was lost in this way. ``send``
        raises it until ``resume``. A record that another thread sends during this call may need a second call."""

    def resume(self) -> None:
        """Accept records again after ``withhold``. Records that are sent within the next moments may be dropped, too:
        then ``poll`` raises."""

    def unknown_topics(self, topics: Iterable[str]) -> frozenset[str]:
        """Returns those of ``topics`` that the broker does not know now. Does not wait for a broker that creates
        them."""

    def close(self) -> None:
        """Drop all queued records and close the client. Idempotent."""


class UnknownTopicError(BrokerUnreachableError):
    """A broker answers, but does not know a topic: for a moment after its start, or because the topic was deleted."""


class UndeliveredError(StreamsError):
    """Some records sent since the last commit were not written, or it is unknown whether they were, although no record
    is at fault: the tasks continue from the last commit. Mirrors ``TaskCorruptedException``.

    ``producer_is_spent``: True if the producer cannot continue, or it is unknown what it has written. A new producer
    must replace it.
    """

    happened: ClassVar[str] = "records not delivered"

    def __init__(self, message: str, *, producer_is_spent: bool = False) -> None:
        super().__init__(message)
        self.producer_is_spent = producer_is_spent


class TransactionAbortedError(UndeliveredError):
    """A transaction is not committed, or it is unknown whether it is. Its records do not count until Kafka reports that
    they do, and the tasks continue from the last commit. Mirrors ``TaskMigratedException``.

    If ``producer_is_spent``, a new producer must take its ``transactional.id``.
    """

    happened = "transaction aborted"


class TransactionalProducer(RecordProducer, Protocol):
    """A producer all of whose records belong to transactions. Readers of committed records see all of a transaction,
    with the offsets committed in it, or nothing of it. One producer at a time has the ``transactional.id``: the last
    that took it.

    Every call of :class:`RecordProducer` raises TransactionAbortedError too: records sent since ``begin_transaction``
    do not count. A call that asks the broker returns at once, and another thread does the work: make no other call
    until it is done.
    """

    answers_within_s: float
    """Seconds after which a call that asks the broker will never be answered. Then only ``close`` may be called, and
    only if the call has returned after all."""

    def init_transactions(self) -> Future[None]:
        """Take the id. Must be the first call. The producer that had the id can write nothing more; its transaction is
        aborted, or committed if its commit had begun. Raises BrokerUnreachableError: call again, with a new
        producer."""

    def begin_transaction(self) -> None:
        """Begin the next transaction, to which all records sent from now on belong. Does not ask the broker."""

    def commit_transaction(self, offsets: Offsets, group_metadata: bytes) -> Future[None]:
        """Commit the records together with ``offsets`` of the application's group, as the member that
        ``group_metadata`` (:meth:`GroupMember.group_metadata`) names. Raises TransactionAbortedError when that member
        is not in the group any more, when another producer has the id, when the broker has aborted the transaction
        (``transaction.timeout.ms``), or when no broker answers."""

    def abort_transaction(self) -> Future[None]:
        """Abort the transaction: none of its records counts. Raises TransactionAbortedError with ``producer_is_spent``
        when only a new producer can abort it."""


class Admin(Protocol):
    """Topics and offsets, seen from outside. Every call raises BrokerUnreachableError within 10 s."""

    def reach(self) -> None:
        """Return when a broker answers. May be called often."""

    def topics(self) -> dict[str, int]:
        """Returns every topic with its number of partitions."""

    def brokers(self) -> Brokers:
        """Returns the brokers that are part of the cluster now, and the leaders of all partitions."""

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create topics; one that exists already is not changed. Returns when all are visible to clients. Raises
        ConfigError for settings that the brokers refuse."""

    def try_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create nothing, but raise what :meth:`create_topics` would raise for topics that do not exist: ConfigError
        for settings that the brokers refuse."""

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics; one that does not exist is no error."""

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records before these offsets."""

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends as of now, for a reader of committed records."""

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends as of now, after the records of open transactions."""

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Returns the settings of each topic, by their names in Kafka; a topic whose settings this client may not see
        is left out."""

    def broker_configs(self) -> dict[str, str]:
        """Returns the settings of one broker, by their names in Kafka; empty if this client may not see them."""

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Returns the id of each topic: one that was deleted and made again has another id. A topic is left out if it
        does not exist, if this client may not describe it, or if the brokers give no ids."""

    def delete_retention_ms(self, topics: Iterable[str]) -> dict[str, int]:
        """Returns how long each *compacted* topic keeps deletions (``delete.retention.ms``, in ms); other topics are
        left out. For a topic whose settings this client may not see it is the default of brokers."""

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Returns the committed offsets of ``group`` for these partitions, or for all if None."""

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit for a group *without members*. Raises ApplicationStateError when it has members."""

    def group_members(self, group: str) -> int:
        """Returns the number of members of ``group``."""


class SessionLostError(StreamsError):
    """A group member's session ended before its commit arrived, or no session began for long, or a commit has no
    answer. No other process has taken the member's place, so a new client can join."""


class OtherProtocolError(StreamsError):
    """The group has members of another protocol, such as those of Kafka Streams for Java; the message names them. A
    client can join when they have left."""


OnAssigned = Callable[[frozenset[TopicPartition] | None], None]
OnRevoked = Callable[[], None]


class GroupMember(Protocol):
    """The coordinator as static member of the consumer group: it receives assignments and fetches nothing. For one
    thread."""

    def subscribe(self, topics: Iterable[str], on_assigned: OnAssigned, on_revoked: OnRevoked = lambda: None) -> None:
        """Join with a static id and the range assignor.

        ``on_assigned`` is called from ``poll`` with the whole assignment each time the group has made one, also if
        nothing changes, and with None when the session is lost. ``on_revoked`` is called from ``poll`` when the group
        is about to reassign its partitions. Until it returns, no other member gets one of this member's partitions, and
        commits of this member count.
        """

    def poll(self, timeout_s: float) -> None:
        """Remain in the group: call it at least every few seconds. Raises SessionLostError when only a new client can
        join, ApplicationStateError when another process has taken the member's place, and OtherProtocolError."""

    def commit(self, offsets: Offsets) -> None:
        """Commit as a member. Raises StreamsError when the group refuses (the generation has passed), SessionLostError
        when only a new client can continue, KafkaRefusedError when the group would refuse permanently."""

    def group_metadata(self) -> bytes:
        """Returns the metadata by which the group fences a transactional commit: the generation of the last assignment.
        Raises StreamsError without a session."""

    def close(self) -> None:
        """Close the client. The member remains in the group until its session times out, or its next incarnation
        joins."""
