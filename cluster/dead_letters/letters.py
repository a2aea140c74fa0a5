"""Dead letters as ``penstock dlq`` reads them, and the filters that select some of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec

from penstock.common.dead_letters import LetterError, Replayed, read_error, read_replayed
from penstock.common.records import NO_HEADERS, Headers, RecordBatch


@dataclass(frozen=True)
class Letter:
    """A record of a dead letter topic. ``error`` is None if another program has written it: it has no error headers."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = NO_HEADERS

    @cached_property
    def error(self) -> LetterError | None:
        """The error that the headers describe."""
        return read_error(self.headers)

    @cached_property
    def replayed(self) -> Replayed | None:
        """The letter from which the record was replayed before it failed again; None if this is its first letter."""
        return read_replayed(self.headers)

    @property
    def source(self) -> str | None:
        """The topic of the record that failed; None if it is unknown."""
        return None if self.error is None else self.error.topic

    @property
    def record_id(self) -> int | None:
        """A number that all letters about one record share; other letters have it with a probability of one in 2⁶⁴.
        None if the letter does not name the record. Valid in this process."""
        error = self.error
        if error is None or error.topic is None or error.offset is None:
            return None
        # With the bytes: a topic that was created again has other records at the same offsets.
        return hash((error.topic, error.partition, error.offset, self.key, self.value, self.replayed))

    @property
    def place(self) -> str:
        """The place in the dead letter topic, as the command line takes it: ``PARTITION@OFFSET``."""
        return f"{self.partition}@{self.offset}"


def letters_of(batch: RecordBatch) -> Iterator[Letter]:
    """Yields the records of ``batch``."""
    headers = batch.headers or [None] * len(batch)
    partition = batch.partition.partition
    for offset, key, value, timestamp, each in zip(
        batch.offsets, batch.keys, batch.values, batch.timestamps, headers, strict=True
    ):
        yield Letter(partition, offset, key, value, timestamp, each or NO_HEADERS)


class Filter(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """Selects letters. All fields that are given must match; of several values of a field one must.

    ``exceptions``: names of classes, with or without their modules or packages. ``topics`` and ``partitions``: where
    the record that failed was read. Times in ms: ``since`` is included, ``until`` is not. ``contains``: a text in the
    message, the stack trace, the key or the value. ``places``: of letters, as :attr:`Letter.place` has them.
    """

    exceptions: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    since: int | None = None
    until: int | None = None
    contains: str | None = None
    places: tuple[str, ...] = ()

    @cached_property
    def _places(self) -> frozenset[str]:
        # There may be thousands, and each letter is looked up in the filters of all replays before.
        return frozenset(self.places)

    def matches(self, letter: Letter) -> bool:
        """Returns True if ``letter`` is selected."""
        if self.places and letter.place not in self._places:
            return False
        if self.since is not None and letter.timestamp < self.since:
            return False
        if self.until is not None and letter.timestamp >= self.until:
            return False
        error = letter.error
        if self.exceptions and (error is None or not self._is_of_class(error.exception)):
            return False
        if self.topics and letter.source not in self.topics:
            return False
        if self.partitions and (error is None or error.partition not in self.partitions):
            return False
        return self.contains is None or _contains(letter, self.contains)

    def _is_of_class(self, exception: str) -> bool:
        # Java's nested classes are separated by a dollar sign.
        short = exception.rpartition(".")[2]
        return any(name in (exception, short, short.rpartition("$")[2]) for name in self.exceptions)


def _contains(letter: Letter, text: str) -> bool:
    error = letter.error
    if error is not None and (text in (error.message or "") or text in (error.stacktrace or "")):
        return True
    data = text.encode()
    return data in (letter.key or b"") or data in (letter.value or b"")
