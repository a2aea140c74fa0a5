"""The beginning and the end of the history that a backfill reads, as people write them: ``--from`` and ``--until``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.common.errors import ConfigError
from penstock.common.ids import TopicPartition
from penstock.common.written_times import WithoutZone, ms_of_iso, ms_of_text

LATEST, EARLIEST = "latest", "earliest"
_OFFSETS = re.compile(r"[\w.\-]+:\d+:\d+(,[\w.\-]+:\d+:\d+)*")
OffsetsAt = Callable[[Iterable[TopicPartition], int], Mapping[TopicPartition, int]]
"""Returns the offset of each partition's first record of a time (ms) or later; its end if there is none."""


@dataclass(frozen=True)
class Bound:
    """A begin or an end of history: ``earliest``, ``latest``, offsets of some partitions, or a time (ms)."""

    text: str
    offsets: Mapping[TopicPartition, int] | None = None
    time_ms: int | None = None

    def resolve(
        self, option: str, partitions: Iterable[TopicPartition], offsets_at: OffsetsAt
    ) -> dict[TopicPartition, int]:
        """Returns the offsets that this bound sets; a partition that it does not set is left out. Raises ConfigError
        if it names a partition that is none of ``partitions``; ``option`` is for the message."""
        asked = list(partitions)
        if self.time_ms is not None:
            return dict(offsets_at(asked, self.time_ms)) if asked else {}
        offsets = dict(self.offsets or {})
        if others := sorted(offsets.keys() - set(asked)):
            raise ConfigError(
                f"{option} {self.text}: the application does not read partition {others[0].partition} of topic "
                f"{others[0].topic!r}. It reads {', '.join(sorted({at.topic for at in asked}))}"
            )
        return offsets


@dataclass(frozen=True)
class Bounds:
    """The range of a backfill. ``begin``: None is the committed offset of a partition, or its beginning if there is
    none. ``until``: None is the present end.

    ``recompute``: the application's state and offsets are left out of account, to compute the state again and compare
    it. Then ``begin`` None is the beginning, and ``until`` None is what the application has committed, if it has
    committed anything; ``latest`` is the present end.
    """

    begin: Bound | None = None
    until: Bound | None = None
    recompute: bool = False
    latest: bool = False

    def in_words(self) -> dict[str, str]:
        """Returns the options that were given, and their texts."""
        given = {"from": self.begin, "until": self.until}
        return {name: bound.text for name, bound in given.items() if bound is not None}


WHOLE = Bounds()


def bounds_of(begin: str | None, until: str | None, *, recompute: bool = False) -> Bounds:
    """Reads both options. Raises ConfigError for a text that is no bound."""
    return Bounds(
        None if begin is None else bound_of("--from", begin, EARLIEST),
        None if until in (None, LATEST) else bound_of("--until", str(until), LATEST),
        recompute,
        until == LATEST,
    )


def bound_of(option: str, text: str, word: str) -> Bound:
    """Reads one bound. ``word`` is the word that ``option`` takes."""
    if text == word:
        return Bound(text)
    if text.isascii() and text.isdigit():
        return _at_time(option, text)
    if _is_iso(text):
        return _at_time(option, text)
    if _OFFSETS.fullmatch(text):
        triples = (each.rsplit(":", 2) for each in text.split(","))
        return Bound(text, {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in triples})
    if text.endswith(".json"):
        return Bound(text, _of_file(option, Path(text)))
    raise ConfigError(
        f"{option} {text!r} is none of: {word}; TOPIC:PARTITION:OFFSET,…; a JSON file with "
        '{"TOPIC": {"PARTITION": OFFSET}}; a time in ms since 1970 or with its zone, such as 2026-11-27T06:40:00Z'
    )


def _at_time(option: str, text: str) -> Bound:
    try:
        return Bound(text, time_ms=ms_of_text(text))
    except ValueError as error:
        raise ConfigError(f"{option} {text!r}: {error}") from None


def _is_iso(text: str) -> bool:
    try:
        ms_of_iso(text, WithoutZone.UTC)
    except ValueError:
        return False
    return True


def _of_file(option: str, file: Path) -> dict[TopicPartition, int]:
    try:
        read: Any = json.loads(file.read_text())
        offsets = {
            TopicPartition(topic, int(number)): int(offset)
            for topic, partitions in read.items()
            for number, offset in partitions.items()
        }
    except OSError as error:
        raise ConfigError(f"{option}: cannot read {file}: {error}") from None
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f'{option}: {file} is no JSON such as {{"TOPIC": {{"PARTITION": OFFSET}}}}') from None
    if not offsets or min(offsets.values()) < 0:
        raise ConfigError(f"{option}: {file} needs an offset of at least one partition, and none below 0")
    return offsets
