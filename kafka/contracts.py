"""Contracts of what the rest of penstock asks of Kafka. The confluent-kafka forms and the fake broker pass the same
tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import ClassVar, Protocol

from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import CommittedOffset, Offsets, TopicPartition
from penstock.common.measures import Sent
from penstock.common.records import Headers, RecordBatch
from penstock.common.topics import NewTopic

BEGINNING = -2
"""The position of the first offset there is."""
END = -1
"""The position of the next record that is written."""


DEFAULT_DELETE_RETENTION_MS = 86_400_000
"""A broker's default of ``delete.retention.ms``."""


class RecordConsumer(Protocol):
    """Reads assigned partitions; belongs to no group. One thread."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions from these offsets (or BEGINNING, END).

        Partitions that stay keep their position and what is fetched already: their value here is ignored.
        """

    def poll(self, max_records: int, timeout_s: float) -> list[RecordBatch]:
        """Returns at most ``max_records`` records, one batch per run of one partition, in the order they came; waits at
        most ``timeout_s`` when there are none. Raises StreamsError when a partition cannot be read; one whose position
        the log does not have gives nothing: see ``lost_positions``."""

    def lost_positions(self) -> dict[TopicPartition, int]:
        """Returns the partitions that ``poll`` has found since the last call to have lost the records at their position
        (retention was faster), with that position. Nothing more is read of them until ``seek``."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at ``offset`` of an assigned partition; what is fetched of it is thrown away."""

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that ``poll`` would return; BEGINNING or END until that is known."""

    def end_offset(self, partition: TopicPartition) -> int | None:
        """The partition's end as of the last fetch, without waiting for the broker. For a reader of committed records
        the last stable offset. None before the first fetch since the partition was assigned or ``seek`` was called."""

    def fetch_end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends as of now: asks the broker."""

    def fetch_beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the first offsets there are as of now: asks the broker."""

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Returns what the application's group has committed; partitions without are left out. Asks the broker."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """``poll`` leaves these out until ``resume``."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo ``pause``."""

    def close(self) -> None:
        """Leave. Idempotent."""


class Mark(Protocol):
    """Records that a producer was given to send between two calls of ``mark``."""

    def delivered(self) -> bool:
        """True if all of it is acknowledged, and all that was sent before. Learnt in ``poll`` and ``flush`` at the
        latest; stays False once a record was refused."""

    def ends(self) -> dict[TopicPartition, int]:
        """For each partition that ``send`` was given, not left to choose: the offset behind the last of these records
        that is acknowledged. Neither markers nor what others write count. A partition is left out while there is none.

        Of a batch that the broker has already, sent again after a lost answer, nobody learns where it is: the
        partition is left out then, or its end is too low, maybe lower than that of an older mark. It never is too high.
        """


class CountingSender(Protocol):
    """Sends by a producer, and counts what it sent."""

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        """Like :meth:`RecordProducer.send`."""

    def take(self) -> Sent:
        """Returns all that was sent. Latencies, from a record's timestamp to its ``send`` by the system's clock, may be
        some milliseconds off; their extremes are those since the last call."""


class RecordProducer(Protocol):
    """Writes records. ``send`` only queues; ``flush`` makes sure. One thread."""

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        """Queue one record; partition −1 is Kafka's default (murmur2), timestamp ``SENT_NOW`` the time of this call.
        Waits while the queue is full. Raises ProductionError when the record can never be sent (too large)."""

    def poll(self) -> None:
        """Let the client do its housekeeping; raises ProductionError if a queued record was refused for good, and
        UndeliveredError if nobody took it for ``message.timeout.ms``, or the producer has come to its end."""

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was queued is acknowledged; False if time ran out. Raises like ``poll``."""

    def mark(self) -> Mark:
        """Returns a mark of what was sent since the last call. What is sent from here on is of the next one."""

    def give_up(self, timeout_s: float) -> bool:
        """Forget what is not delivered, and continue: it is not waited for any more, and none of it is written behind
        what is sent from then on. Marks before it are never delivered. False if the client has not let go of all of it
        yet."""

    def withhold(self) -> None:
        """Forget what is not delivered, and refuse what is sent from now on. Another thread may call it, and again:
        then a ``send`` that waits in a full queue ends.

        Until ``give_up``, ``poll`` and ``flush`` raise UndeliveredError if a record was lost so. ``send`` raises it
        until ``resume``. A record that another thread sends during this call may need a second call."""

    def resume(self) -> None:
        """Accept records again after ``withhold``. What is sent within the next moments may be given up, too:
        ``poll`` raises then."""

    def unknown_topics(self, topics: Iterable[str]) -> frozenset[str]:
        """Returns those of ``topics`` that the broker does not know now, without a wait; some brokers create them."""

    def partitions(self, topic: str) -> int:
        """Returns the number of partitions of ``topic``. Waits for one that is unknown, until 2 s after the first
        question about it. Raises MissingTopicError."""

    def counting(self) -> CountingSender:
        """Returns another way to send, which counts."""

    def close(self) -> None:
        """Give up what is queued and leave. Idempotent."""


class UnknownTopicError(BrokerUnreachableError):
    """A broker answers, but does not know a topic, as for a moment after its start, or after the topic's deletion."""


class UndeliveredError(StreamsError):
    """Part of what was sent since the last commit is not written, or nobody knows whether it is, though no record is
    wrong: the tasks continue from what is committed. Mirrors ``TaskCorruptedException``.

    ``producer_is_spent``: the producer can do nothing any more, or nobody knows what it has done: another must take its
    place.
    """

    happened: ClassVar[str] = "records not delivered"

    def __init__(self, message: str, *, producer_is_spent: bool = False) -> None:
        super().__init__(message)
        self.producer_is_spent = producer_is_spent


class TransactionAbortedError(UndeliveredError):
    """Kafka did not take a transaction, or nobody knows whether it did: what was sent in it does not count until
    Kafka says so, and the tasks continue from what is committed. Mirrors ``TaskMigratedException``.

    If the ``producer_is_spent``, another must take its ``transactional.id``.
    """

    happened = "transaction aborted"


class TransactionalProducer(RecordProducer, Protocol):
    """A producer all of whose records belong to transactions: readers of committed records see all of one, with the
    offsets committed in it, or nothing. At each time one producer has the ``transactional.id``: the last to come.

    Every call of :class:`RecordProducer` raises TransactionAbortedError too: what was sent since ``begin_transaction``
    does not count. What asks the broker returns at once and is done in another thread: no other call until then.
    """

    answers_within_s: float
    """Seconds after which a call that asks the broker will not come back any more. Then nothing but ``close`` may be
    called, once it has come back after all."""

    def init_transactions(self) -> Future[None]:
        """Take the id, before anything else: the producer that had it can write nothing any more, its transaction is
        aborted, or committed if that had begun. Raises BrokerUnreachableError: call again, with a new producer."""

    def begin_transaction(self) -> None:
        """Begin the next transaction, to which what is sent from here on belongs. Asks nobody."""

    def commit_transaction(self, offsets: Offsets, group_metadata: bytes) -> Future[None]:
        """Commit what was sent together with ``offsets`` of the application's group, as the member that
        ``group_metadata`` (:meth:`GroupMember.group_metadata`) names. Raises TransactionAbortedError: when that
        member is not in the group any more, when another producer has the id, when the broker has given the transaction
        up (``transaction.timeout.ms``), or when nobody answers."""

    def abort_transaction(self) -> Future[None]:
        """Abort the transaction: nothing that was sent in it counts. Raises TransactionAbortedError with
        ``producer_is_spent`` when only a new producer can see to that."""


class Admin(Protocol):
    """Topics and offsets, seen from outside. Every call raises BrokerUnreachableError within 10 s."""

    def reach(self) -> None:
        """Return when a broker answers. May be asked often."""

    def topics(self) -> dict[str, int]:
        """Returns every topic with its number of partitions."""

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create; one that exists already is left as it is. Returns when all are visible to clients. Raises ConfigError
        for settings that the brokers refuse."""

    def try_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create nothing, but raise what :meth:`create_topics` raises of topics that do not exist: ConfigError for
        settings that the brokers refuse."""

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete; one that does not exist is no error."""

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Drop the records in front of these offsets."""

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends as of now, for a reader of committed records."""

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends as of now, behind what open transactions have written."""

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Returns the settings of each topic, by their names in Kafka; a topic whose settings this client may not see
        is left out."""

    def broker_configs(self) -> dict[str, str]:
        """Returns the settings of one broker, by their names in Kafka; empty if this client may not see them."""

    def delete_retention_ms(self, topics: Iterable[str]) -> dict[str, int]:
        """Returns how long each *compacted* topic keeps deletions (``delete.retention.ms``); others are left out. For a
        topic whose settings this client may not see it is a broker's default."""

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Returns the committed offsets of ``group`` for these partitions, or for all if None."""

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit for a group *without members*. Raises ApplicationStateError when it has some."""

    def group_members(self, group: str) -> int:
        """Returns the number of members of ``group``."""


class SessionLostError(StreamsError):
    """A group member's session ended before its commit arrived, or none began for long, or a commit has no answer: no
    other process has taken the member's place, a new client can join."""


class OtherProtocolError(StreamsError):
    """The group has members of another protocol, such as those of Kafka Streams for Java. A client can
    join when they have left."""


OnAssigned = Callable[[frozenset[TopicPartition] | None], None]
OnRevoked = Callable[[], None]


class GroupMember(Protocol):
    """The coordinator as static member of the consumer group: learns what the group assigns, fetches nothing. One
    thread."""

    def subscribe(self, topics: Iterable[str], on_assigned: OnAssigned, on_revoked: OnRevoked = lambda: None) -> None:
        """Join with a static id and the range assignor.

        ``on_assigned`` is called from ``poll`` with the whole assignment each time the group has given one, if only to
        say that nothing changes, and with None when the session is lost. ``on_revoked`` is called from ``poll`` when
        the group is about to hand out its partitions again: until it returns nobody else gets one of this member's, and
        what it commits meanwhile counts.
        """

    def poll(self, timeout_s: float) -> None:
        """Remain in the group: call at least every few seconds. Raises SessionLostError when only a new client can,
        ApplicationStateError when another process has taken the member's place, and OtherProtocolError."""

    def commit(self, offsets: Offsets) -> None:
        """Commit as a member. Raises StreamsError when the group refuses (the generation has passed), SessionLostError
        when only a new client can continue, KafkaRefusedError when it would refuse for ever."""

    def group_metadata(self) -> bytes:
        """Returns what a transactional commit must carry to be fenced by the group's generation: that of the last
        assignment. Raises StreamsError without a session."""

    def close(self) -> None:
        """Leave the poll loop. The member stays until its session times out, or its next incarnation comes."""
