"""The form of a dead letter (KIP-1034): the key and value of a record as they were read, its timestamp and its headers,
and then headers that describe the error. Kafka Streams for Java writes the same.

A record that is written back to its topic (``penstock dlq replay``) has one header more, :data:`REPLAYED`. If it fails
again, its next dead letter keeps that header.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from penstock.common.records import Header, Headers

EXCEPTION = "__streams.errors.exception"
"""The class of the exception."""
MESSAGE = "__streams.errors.message"
"""The message of the exception; null if it has none."""
STACKTRACE = "__streams.errors.stacktrace"
"""The stack trace of the exception, as text of several lines."""
TOPIC = "__streams.errors.topic"
"""The topic of the record; null if no record was being processed, as in a punctuator."""
PARTITION = "__streams.errors.partition"
"""The partition of the record, in decimal."""
OFFSET = "__streams.errors.offset"
"""The offset of the record, in decimal."""
ERROR_HEADERS = EXCEPTION, MESSAGE, STACKTRACE, TOPIC, PARTITION, OFFSET
"""The headers that describe the error, in the order in which they are appended."""
REPLAYED = "__penstock.replayed"
"""The header of a record that was replayed: JSON of :class:`Replayed`."""

_NAMES = frozenset(ERROR_HEADERS)


class LetterError(NamedTuple):
    """The error that a dead letter describes, and the position of the record. Parts that the letter lacks are None."""

    exception: str
    message: str | None
    stacktrace: str | None
    topic: str | None
    partition: int | None
    offset: int | None


class Replayed(msgspec.Struct, frozen=True):
    """The dead letter from which a record was replayed. ``count``: number of replays of the record."""

    topic: str
    partition: int
    offset: int
    count: int


def read_error(headers: Iterable[Header]) -> LetterError | None:
    """Returns the error that the headers describe; None if they describe none, so that the record is no dead letter.

    If a record has headers of several errors, because its topic held dead letters, the last one counts.
    """
    found = {name: value for name, value in headers if name in _NAMES}
    exception = _text(found.get(EXCEPTION))
    if exception is None:
        return None
    return LetterError(
        exception.partition(":")[0],  # Kafka Streams 4.2 writes the message there, too
        _text(found.get(MESSAGE)),
        _text(found.get(STACKTRACE)),
        _text(found.get(TOPIC)),
        _number(found.get(PARTITION)),
        _number(found.get(OFFSET)),
    )


def own_headers(headers: Headers) -> list[Header]:
    """Returns the headers that the record had before it became a dead letter, except :data:`REPLAYED`."""
    last = {name: index for index, (name, _) in enumerate(headers) if name in _NAMES}
    added = set(last.values())
    return [each for index, each in enumerate(headers) if index not in added and each[0] != REPLAYED]


def read_replayed(headers: Iterable[Header]) -> Replayed | None:
    """Returns the dead letter from which the record was replayed last; None if it was not replayed."""
    for name, value in reversed(list(headers)):
        if name == REPLAYED:
            try:
                return msgspec.json.decode(value or b"", type=Replayed)
            except msgspec.DecodeError:  # another program's header
                return None
    return None


def replayed_header(replayed: Replayed) -> Header:
    """Returns the header of a record that is replayed."""
    return REPLAYED, msgspec.json.encode(replayed)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _number(data: bytes | None) -> int | None:
    try:
        number = int(data or b"")
    except ValueError:
        return None
    return None if number < 0 else number
