"""Counts dead letters by source topic, exception and message; similar messages are one.

Memory is bounded, however many letters there are: if an exception has many messages in a topic, more of their parts are
left out, and in the end all of them are one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from penstock.cluster.dead_letters.letters import Letter

_MOST_MESSAGES = 20
"""Messages of one exception in one topic that are told apart."""
_MOST_CAUSES = 2000
"""Pairs of topic and exception that are told apart."""
_LONGEST = 300
"""Characters of a message that are kept."""
MANY = "(many different messages)"
OTHERS = "(others)"
FOREIGN = "(no dead letter)"

_CHANGING = re.compile(
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"  # a UUID
    r"|\b0x[0-9a-fA-F]+\b"
    r"|\b(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b"
    r"|\d+(?:[.,:_-]\d+)*"
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|<[^>]*>|\[[^\]]*\]|\{[^}]*\}")


class Cause(NamedTuple):
    """The letters that are counted together. If their messages differ, ``message`` has ``#`` for numbers, and may have
    ``…`` for quoted parts."""

    topic: str | None
    exception: str
    message: str | None


@dataclass
class Counted:
    """The letters of one cause: number, first and last time (ms), and the place of the newest letter as an example.

    ``replayed`` of them were replayed; ``again`` are letters of records that had been replayed before, at most
    ``most_replays`` times. ``message``: of the first letter; ``alike``: all have the same.
    """

    letters: int = 0
    first_ms: int = 0
    last_ms: int = 0
    replayed: int = 0
    again: int = 0
    most_replays: int = 0
    example: str = ""
    message: str | None = None
    alike: bool = True

    def add(self, letter: Letter, replayed: bool) -> None:
        """Count a letter."""
        before = letter.replayed
        at, count = letter.timestamp, 0 if before is None else before.count
        message = None if letter.error is None else _first_line(letter.error.message)
        self._take(Counted(1, at, at, int(replayed), int(before is not None), count, letter.place, message))

    def _take(self, other: Counted) -> None:
        if not self.letters or other.last_ms >= self.last_ms:
            self.example = other.example
        if not self.letters:
            self.first_ms, self.message = other.first_ms, other.message
        self.alike = self.alike and other.alike and self.message == other.message
        self.first_ms = min(self.first_ms, other.first_ms)
        self.last_ms = max(self.last_ms, other.last_ms)
        self.letters += other.letters
        self.replayed += other.replayed
        self.again += other.again
        self.most_replays = max(self.most_replays, other.most_replays)

    def merge(self, other: Counted) -> Counted:
        """Returns this, with the letters of ``other``."""
        self._take(other)
        return self


@dataclass
class _Messages:
    """The messages of one exception in one topic, in the coarsest form that was needed so far."""

    form: int = 0
    counts: dict[str | None, Counted] = field(default_factory=dict)


class Summary:
    """The letters of a topic, counted."""

    def __init__(self) -> None:
        self._causes: dict[tuple[str | None, str], _Messages] = {}
        self.letters = 0

    def add(self, letter: Letter, replayed: bool) -> None:
        """Count a letter. ``replayed``: it was replayed, by what is known about replays."""
        self.letters += 1
        error = letter.error
        cause = (None, FOREIGN) if error is None else (error.topic, error.exception)
        if cause not in self._causes and len(self._causes) >= _MOST_CAUSES:
            cause = None, OTHERS
        messages = self._causes.setdefault(cause, _Messages())
        form = _FORMS[messages.form](None if error is None else error.message)
        messages.counts.setdefault(form, Counted()).add(letter, replayed)
        while len(messages.counts) > _MOST_MESSAGES:
            _coarsen(messages)

    def counts(self) -> list[tuple[Cause, Counted]]:
        """Returns the causes with what was counted, most letters first."""
        found = [
            (Cause(*cause, counted.message if counted.alike else message), counted)
            for cause, messages in self._causes.items()
            for message, counted in messages.counts.items()
        ]
        return sorted(found, key=lambda each: (-each[1].letters, str(each[0])))


def _coarsen(messages: _Messages) -> None:
    messages.form += 1
    old, messages.counts = messages.counts, {}
    for message, counted in old.items():
        coarse = _FORMS[messages.form](message)
        there = messages.counts.get(coarse)
        messages.counts[coarse] = counted if there is None else there.merge(counted)


def _first_line(message: str | None) -> str | None:
    return None if message is None else message.strip().partition("\n")[0][:_LONGEST]


@lru_cache(maxsize=4096)
def without_numbers(message: str | None) -> str | None:
    """Returns the first line of a message, in which numbers, UUIDs and hexadecimal texts are ``#``."""
    first = _first_line(message)
    return None if first is None else _CHANGING.sub("#", first)


@lru_cache(maxsize=4096)
def without_quotes(message: str | None) -> str | None:
    """Returns the message :func:`without_numbers`, in which quoted and bracketed parts are ``…``."""
    short = without_numbers(message)
    return None if short is None else _QUOTED.sub("…", short)


def _all_one(_: str | None) -> str:
    return MANY


_FORMS: tuple[Callable[[str | None], str | None], ...] = (without_numbers, without_quotes, _all_one)
