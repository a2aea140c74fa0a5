"""Questions to a running application about its dead letters, and the values of the answers.

``cluster/queries/letter_queries.py`` answers, by reading and writing Kafka from outside: no task takes part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.cluster.record_side import Looked, Shown, ShownRecord

LETTERS_MOST = 100
"""Largest number of letters that one list has."""
REPLAY_MOST = 500_000
"""Offsets of the largest dead letter topic that is replayed over HTTP: ``penstock dlq replay`` reads any."""


@dataclass(frozen=True, slots=True)
class LetterOrigin:
    """The record that failed. Parts that the letter does not name are None."""

    topic: str | None
    partition: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class LetterReplay:
    """A topic to which a letter was replayed, and the latest possible time (ms)."""

    topic: str | None
    at_ms: int


@dataclass(frozen=True)
class ShownLetter:
    """A dead letter. ``record`` has its bytes as text or bytes, and the record's own headers. ``exception`` is None if
    another program has written it: then it names no error. ``key`` and ``value`` are decoded by the serdes that the
    application has for the origin's topic now; ``replay_count``: the number of replays after which it failed again."""

    record: ShownRecord
    origin: LetterOrigin
    exception: str | None
    message: str | None
    stacktrace: str | None
    key: Shown | None
    value: Shown | None
    replays: tuple[LetterReplay, ...] = ()
    replay_count: int = 0


@dataclass(frozen=True)
class ShownLetters:
    """The newest letters of the application's dead letter topic, the newest first. ``looked`` and ``stopped`` as in
    :class:`~penstock.cluster.record_side.Peek`."""

    topic: str
    letters: tuple[ShownLetter, ...]
    looked: tuple[Looked, ...]
    stopped: str | None = None


@dataclass(frozen=True)
class ReplayRequest:
    """The letters to be replayed: those at ``places`` (``PARTITION@OFFSET``), of these ``exceptions``, from these
    ``topics``; what is empty selects all. ``dry_run``: only the plan is asked for."""

    places: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True)
class ReplayReport:
    """The plan of a replay, and the number of records that it has ``written``. ``selected`` of ``read`` letters match;
    ``to``: the number of records for each topic; ``left``: the number of letters that are left out for each reason;
    ``lines``: the plan for people."""

    topic: str
    read: int
    selected: int
    to: Mapping[str, int]
    left: Mapping[str, int]
    lines: tuple[str, ...]
    written: int


class LetterSide(Protocol):
    """Questions about dead letters. Every call may raise UnknownAppTopicError if the application has no dead letter
    topic, and what the calls of :class:`~penstock.cluster.record_side.RecordSide` raise."""

    async def newest(self, limit: int) -> ShownLetters:
        """Returns the newest letters."""

    async def letter(self, topic: str, partition: int, offset: int) -> ShownLetter | None:
        """Returns one letter with its whole stack trace; None if there is none. Raises UnknownAppTopicError if
        ``topic`` is not the application's dead letter topic."""

    async def replay(self, request: ReplayRequest) -> ReplayReport:
        """Write the records of letters again, each once, to the topics and partitions that they came from. One that is
        interrupted continues when it is requested again. Raises ConfigError for a topic with more than
        :data:`REPLAY_MOST` offsets."""
