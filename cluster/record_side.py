"""Questions to a running application about the records of its topics, and the values of the answers.

``cluster/queries/record_queries.py`` answers, by reading Kafka from outside: no task and no stream actor takes part.
Each answer is bounded in records, bytes and seconds, and names the part of the topic that it has looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from penstock.common.errors import StreamsError
from penstock.common.windows import Window

PEEK_MOST = 100
"""Largest number of records that one peek returns."""
KEYS_OF_NEWEST = 1000
"""Number of the newest records whose keys are counted."""
MOST_FREQUENT = 10
"""Number of keys that are returned with their counts."""


class UnknownAppTopicError(StreamsError):
    """The application neither reads nor writes that topic. ``known``: the topics that it has."""

    def __init__(self, message: str, known: Iterable[str]) -> None:
        super().__init__(message)
        self.known = tuple(known)

    @classmethod
    def of(cls, application_id: str, topic: str, known: Iterable[str]) -> UnknownAppTopicError:
        """Returns the error for ``topic``."""
        names = sorted(known)
        return cls(
            f"application {application_id!r} neither reads nor writes topic {topic!r}; its topics: {', '.join(names)}",
            names,
        )


class ReadsBusyError(StreamsError):
    """Another read of a topic is under way, or this one takes too long: ask again."""


class Form(StrEnum):
    """The form in which bytes are shown: decoded by the topic's serde, as UTF-8 text, or as bytes (base64)."""

    DECODED = "decoded"
    TEXT = "text"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Shown:
    """A key, a value or a header's value. ``size``: bytes in the topic. ``clipped``: only their beginning is shown.
    ``problem``: the reason why the serde has not decoded them; None if it has, or if there is none."""

    form: Form
    value: Any
    size: int
    clipped: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record of a topic. A key or value that is None is null. ``headers``: the first ones; ``header_count``: the
    number of all. ``window``: that of a windowed key, if only keys of one store were asked for."""

    partition: int
    offset: int
    timestamp: int
    key: Shown | None
    value: Shown | None
    headers: tuple[tuple[str, Shown | None], ...] = ()
    header_count: int = 0
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """The offsets of a partition that were looked at: from ``reached`` to ``end``, without it. ``begin``: the first
    offset that exists. Offsets of transaction markers, and of records that compaction has removed, count."""

    partition: int
    begin: int
    reached: int
    end: int


@dataclass(frozen=True)
class Peek:
    """The newest records of a topic, the newest first; those of one partition are in their order.

    ``use``: the topic's use in the application. ``stopped``: the limit that ended the read early, so that newer records
    of other partitions may be missing; None if there was none.
    """

    topic: str
    use: str
    records: tuple[ShownRecord, ...]
    looked: tuple[Looked, ...]
    committed_only: bool
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class KeyCount:
    """A key in a partition, with its number of ``records``. ``key`` is None for null."""

    key: Shown | None
    partition: int
    records: int


@dataclass(frozen=True)
class KeyCounts:
    """The keys of the newest ``records`` of a topic, or of one partition of it: the most frequent ones with their
    counts. ``different``: the number of all keys among them; one that is in two partitions counts twice.

    ``use``, ``looked`` and ``stopped`` as in :class:`Peek`.
    """

    topic: str
    use: str
    records: int
    different: int
    keys: tuple[KeyCount, ...]
    looked: tuple[Looked, ...]
    committed_only: bool
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class KeyScan:
    """The part of a topic in which records of a key are looked for, from the end backwards: at most ``offsets`` offsets
    of it, until ``limit`` records are found. ``from_ms``: no further back than the first record of that time (ms) or
    later. ``cursor`` continues an earlier answer."""

    limit: int = 100
    offsets: int = 100_000
    from_ms: int | None = None
    cursor: str | None = None


@dataclass(frozen=True)
class KeyRecords:
    """The records of a key in a topic: of each partition the newest first.

    ``compacted``: True if the topic is compacted, so that older records of the key may be gone; None if the application
    may not see its settings. ``cursor``: continues where the answer ends; None if everything was looked at.
    ``stopped``: the limit that ended the read early; None if there was none, or ``limit`` records are found.
    """

    topic: str
    use: str
    records: tuple[ShownRecord, ...]
    looked: tuple[Looked, ...]
    committed_only: bool
    compacted: bool | None
    cursor: str | None
    stopped: str | None = None


class RecordSide(Protocol):
    """Questions about records. Every call may raise

    - ReadsBusyError: another read is under way, as a server reads one topic at a time, or Kafka is slow: ask again;
    - BrokerUnreachableError: no broker answers;
    - MissingTopicError: the topic does not exist in Kafka;
    - ApplicationStateError: the application does not run.
    """

    async def topics(self) -> Mapping[str, str]:
        """Returns the topics that the application reads and writes, with the use of each."""

    async def peek(self, topic: str, limit: int) -> Peek:
        """Returns the newest ``limit`` records of a topic, decoded. Raises UnknownAppTopicError."""

    async def keys(self, topic: str, partition: int | None) -> KeyCounts:
        """Returns the most frequent keys of the newest records of a topic, or of one partition. Raises
        UnknownAppTopicError, and MissingTopicError if there is no such partition."""

    async def life(self, store: str, key: Any, scan: KeyScan) -> KeyRecords:
        """Returns the versions of a key, or of its windows, that the store's changelog still has; a null value deletes.

        Raises UnknownQueryError if the store has no changelog, or one whose keys are not those of the store,
        UnknownStateStoreError, SerializationError if the store's serde refuses the key, and ValueError for a cursor
        that no answer ever gave.
        """

    async def inputs(self, store: str, key: Any, scan: KeyScan) -> KeyRecords:
        """Returns the records with this key in the topic that places the keys of the store: a source topic or a
        repartition topic of its sub-topology. Which of them changed the store is not known. Raises as :meth:`life`."""
