"""The errors that a program may want to catch. All of them are public.

::

    StreamsError                      anything below
    ├── TopologyError                 the program describes an impossible topology: fix the program
    ├── ConfigError                   a configuration key or value is wrong: fix the configuration
    ├── SerializationError            a serde refused bytes or an object: fix the serde or the data
    ├── RetriableError                a condition that may pass, such as a schema registry that is away: tried again
    ├── RecordError                   one record could not be handled; names operator, topic, partition, offset
    │   ├── DeserializationError      its bytes could not be decoded
    │   ├── InvalidTimestampError     its timestamp is negative
    │   ├── BufferFullError           a suppression buffer with a strict limit is full: raise the limit
    │   ├── ProcessingError           a user function raised (``__cause__`` is the exception)
    │   └── ProductionError           a result could not be serialised or was refused by the broker
    │       └── RecordRefusedError    its content was refused, for example because it is too large
    ├── RuleBrokenError               the test driver saw the program break a rule of docs/PROGRAMS.md: fix the program
    ├── StateStoreError               a store is corrupt, locked, or was used after its close
    │   ├── StateStoreLockedError     another process has it open: try again when that has ended
    │   ├── StateStoreDiskError       its disk is full, read-only or broken: free space, or repair the disk
    │   └── StateStoreCorruptError    its rows cannot be trusted: wipe and restore it
    ├── UnknownStateStoreError        there is no store of that name: the message lists the stores
    ├── UnknownQueryError             this kind of store does not answer that: the message lists what it answers
    ├── BrokerUnreachableError        no broker answers at the address: start it or fix bootstrap.servers
    ├── KafkaRefusedError             Kafka refuses permanently: allow it (ACLs), or fix what it names
    ├── PartitionerMismatchError      keys are not where murmur2 puts them, and partitioner.mismatch=fail
    ├── MissingTopicError             a topic the program reads or writes does not exist: create it
    ├── InternalTopicError            an internal topic exists with the wrong shape: reset the application
    ├── LocalBrokerError              the local broker cannot be installed, started or stopped
    ├── ObjectStoreError              object storage refuses or does not answer: fix its URL, credentials or space
    │   ├── ObjectMissingError        it has no object of that name
    │   └── ObjectExistsError         it has an object of that name already, which was to be created
    ├── ArchiveError                  an archive is damaged, or not the one it should be: the message names it
    │   └── ArchiveGapError           it lacks some of the offsets: archive them, or ask for others
    ├── ApplicationStateError         the application is not in a state that allows the call
    ├── PositionError                 a position names topics that the store is not kept from: give those it names
    └── TaskNotReadyError             a task restores or moves: ask again
        └── NotUpToBoundError         a store has not reached the demanded position yet: ask again

One error is not a StreamsError. It is the cause of the ProcessingError of a call out::

    TimeoutError
    └── CallTimeoutError              a call had no result in time: raise its time-out, or find the reason

Penstock's own parts use more StreamsErrors. Each is defined with the contract that raises it, and the other side of the
contract handles it, so programs need not catch it::

    kafka/contracts.py                errors after which a client of Kafka cannot continue
    ├── UnknownTopicError             a BrokerUnreachableError: brokers answer, but do not know a topic for now
    ├── UndeliveredError              some records are not written: the tasks go back to the last commit
    │   └── TransactionAbortedError   so do those of the transaction, all together
    ├── SessionLostError              the session in the group: another client joins
    └── OtherProtocolError            members of another kind, as of a Java application: join when they have left
    actors/task_host/                 UndeliveredErrors: the tasks go back
    ├── SerdeUnavailableError         a serde cannot answer
    └── RecordsRefusedError           a broker has refused records: a handler decides when they are sent again
    checkpoints/errors.py             checkpoints in object storage; the application continues without them
    ├── CheckpointDamagedError        a file or a manifest is damaged: an older one, or the changelog, has the state
    ├── CheckpointFormatError         a newer penstock has written it
    ├── CheckpointSupersededError     the task belongs to another actor: its writer ends
    └── CheckpointLateError           an upload took too long: a later one takes its place
    kafka/internal_topics/known_topics.py
    └── LostTopicError                a restarted coordinator checks again, because a broker may list late
    actors/commits/guarantee.py
    └── RefusedError                  the coordinator does not know this actor any more: it drops its tasks
    cluster/client/control.py
    └── CoordinatorSilentError        the coordinator does not answer now: the driver asks again
    cli/top_source.py
    └── SilentError                   nobody answers now: the last figures stay on the screen
    pipeline/archive/
    ├── ArchiveTakenOverError         an ArchiveError: another run archives the topic to this place, and this one ends
    └── MissingManifestError          an ArchiveError: a manifest is missing, or a reader looks again
    cluster/queries/audit_point.py
    └── AuditPointError               no audit point could be taken: the audit is tried again later
    cluster/record_side.py            answers to questions about the records of topics
    ├── UnknownAppTopicError          the application neither reads nor writes that topic: the message lists its topics
    └── ReadsBusyError                another topic is being read: ask again
    cluster/environment.py            what the coordinator gets instead of an answer
    ├── ActorLostError                the actor's process is gone: another takes its place
    ├── ActorEndedError               its loop has ended; the reason is reported elsewhere
    ├── ActorFailedError              it cannot do its work: the application fails, or replaces it
    ├── ActorSilentError              it has not answered: the order is repeated later
    ├── ActorNameTakenError           Ray still has another of that name: the next has another number
    └── CommitRefusedError            Kafka will never take the offsets: the application fails
    registry/contracts.py             a schema registry's answers: the record, or the program's schema, is wrong
    ├── SchemaNotFoundError           a SerializationError: there is no schema of that id, or no such subject
    └── SchemaRefusedError            a SerializationError: a schema is not valid, or not compatible with an earlier one
    pipeline/ingest/contracts.py
    └── FileError                     a file cannot be ingested: the other files are, then the ingest fails
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from penstock.common.position import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Iterable


class StreamsError(Exception):
    """The base class of all errors that penstock raises on purpose. Mirrors ``StreamsException``.

    A traceback shows the command that explains the error.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        name = next(cls.__name__ for cls in type(self).__mro__ if cls.__module__ == __name__)
        if name not in ("StreamsError", "ConfigError"):  # whose messages say all
            self.add_note(f"penstock explain {name}")


class TopologyError(StreamsError):
    """The program describes an impossible topology. Mirrors ``TopologyException``."""


class ConfigError(StreamsError):
    """A configuration key is unknown or its value is not allowed. Mirrors ``ConfigException``."""


class SerializationError(StreamsError):
    """A serde refused what it was given. Mirrors ``SerializationException``."""


class RetriableError(StreamsError):
    """A serde cannot do its work now, but may be able to later. For example, a schema registry does not answer. No
    record is at fault, so no exception handler is asked. Mirrors ``RetriableException``.

    If the deserializer of a source raises it, the record's partition waits, and the serde is asked again. If it is
    raised anywhere else, the task goes back to its last commit.
    """


class RecordError(StreamsError):
    """One record could not be handled. The message has all that is known about it."""

    def __init__(
        self,
        what: str,
        *,
        operator: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        key: object = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.operator = operator
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key

    def __str__(self) -> str:
        where = [f"operator {self.operator}"] if self.operator else []
        if self.topic is not None:
            # A record that could not be written has no offset, and has a partition only if one was chosen.
            parts = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
            where.append(", ".join(f"{name} {part}" for name, part in parts.items() if part not in (None, -1)))
        if self.key is not None:
            where.append(f"key {self.key!r}")
        return f"{self.what} [{'; '.join(where)}]" if where else self.what

    def __reduce__(self) -> tuple[object, ...]:
        # The default would keep only the message; errors are pickled between actors.
        return (
            _record_error,
            (type(self), self.what, self.operator, self.topic, self.partition, self.offset, self.key),
        )


def _record_error(
    cls: type[RecordError],
    what: str,
    operator: str | None,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    key: object,
) -> RecordError:
    return cls(what, operator=operator, topic=topic, partition=partition, offset=offset, key=key)


class DeserializationError(RecordError):
    """A record's key or value could not be decoded."""


class InvalidTimestampError(RecordError):
    """A record's timestamp is negative. Raised by ``FailOnInvalidTimestamp``."""


class BufferFullError(RecordError):
    """An update is beyond the limits of a suppression buffer that must not emit early."""


class ProcessingError(RecordError):
    """A user function raised; ``__cause__`` is its exception with its traceback."""


class ProductionError(RecordError):
    """A result could not be serialised, or the broker refused it permanently.

    ``late``: True if the result was sent earlier, so that the record that is sent or processed now is not at fault.
    """

    late = False


class RecordRefusedError(ProductionError):
    """The client or the broker refuses a record because of its content: it is too large, or it has no key and the topic
    is compacted. Mirrors ``RecordTooLargeException`` and ``InvalidRecordException``."""


class RuleBrokenError(StreamsError):
    """A function changes what it was given, a store's serde changes a value, or the topology writes to one of its own
    source topics in an endless loop.

    Raised by ``TopologyTestDriver`` alone: a live application does not check these rules, and its results are wrong. No
    handler drops the record.
    """


class StateStoreError(StreamsError):
    """A store is corrupt, locked by another process, or closed. Mirrors ``InvalidStateStoreException``."""


class StateStoreLockedError(StateStoreError):
    """Another process, perhaps one that is just ending, has the store open: wait, then try again."""


class StateStoreDiskError(StateStoreError):
    """The disk below ``state.dir`` is full, read-only or broken. Another node may have a better one."""


class StateStoreCorruptError(StateStoreError):
    """The rows on disk cannot be trusted: wipe the store and restore it. Mirrors ``TaskCorruptedException``.

    ``restorable``: True if the next actor that opens the task's stores wipes and restores them, because all of them
    have changelogs.
    """

    restorable = False


class UnknownStateStoreError(StreamsError):
    """There is no store of that name. Mirrors ``UnknownStateStoreException``."""


class UnknownQueryError(StreamsError):
    """This kind of store does not answer this kind of query. Mirrors ``FailureReason.UNKNOWN_QUERY_TYPE``.

    ``query`` is the name of the query, ``answered`` has the names of the queries that the store answers.
    """

    query: str = ""
    answered: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: str, store: str, answered: Iterable[str]) -> Self:
        """Returns the error for a ``query``. ``store`` begins the message: a name, or a description of the store."""
        known = tuple(answered)
        error = cls(f"{store} does not answer {query}; it answers: {', '.join(known) or 'none'}")
        error.query, error.answered = query, known
        return error


class BrokerUnreachableError(StreamsError):
    """No broker answers at ``bootstrap.servers``."""


class KafkaRefusedError(StreamsError):
    """Kafka refuses permanently (not authorised, a limit exceeded); the message has Kafka's reason. A repetition would
    not help."""


class MissingTopicError(StreamsError):
    """A topic does not exist. Mirrors ``MissingSourceTopicException``."""


class PartitionerMismatchError(StreamsError):
    """Another partitioner than Kafka's default wrote a topic whose keys matter, and ``partitioner.mismatch=fail``."""


class InternalTopicError(StreamsError):
    """An internal topic exists with the wrong number of partitions, or is lost although offsets are committed. Mirrors
    ``MisconfiguredInternalTopicException`` and ``MissingInternalTopicsException``."""


class LocalBrokerError(StreamsError):
    """The local broker cannot be installed, started or stopped."""


class ObjectStoreError(StreamsError):
    """Object storage refuses a call, or does not answer: the message names the object and the URL."""


class ObjectMissingError(ObjectStoreError):
    """There is no object of that name."""


class ObjectExistsError(ObjectStoreError):
    """An object that was to be created only if absent exists already: another writer has created it."""


class ArchiveError(StreamsError):
    """An archive cannot be read or continued: the message names the object, or the topic, and what to do."""


class ArchiveGapError(ArchiveError):
    """An archive lacks some of the offsets that were asked for."""


class ApplicationStateError(StreamsError):
    """The application is not in a state that allows the call."""


class TaskNotReadyError(StreamsError):
    """A task restores or moves between actors: ask again. Mirrors ``StreamsRebalancingException``."""


class PositionError(StreamsError):
    """A position names topics that the store's sub-topology does not read, so the store can never reach it."""


class NotUpToBoundError(TaskNotReadyError):
    """A store has not reached the demanded position in time: ask again. Mirrors
    ``FailureReason.NOT_UP_TO_BOUND``. ``position`` is that of the store."""

    def __init__(self, message: str, position: Position = NOWHERE) -> None:
        super().__init__(message)
        self.position = position


class CallTimeoutError(TimeoutError):
    """A call out (``map_values_async`` and the like) had no result within the time-out of its operator."""
