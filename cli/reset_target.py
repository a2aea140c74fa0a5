"""The offsets that ``penstock reset`` sets for input topics, by the options of Kafka's own tool."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from penstock.cli.topic_read import Offsets
from penstock.common.errors import ConfigError
from penstock.common.ids import TopicPartition
from penstock.common.written_times import WithoutZone, ms_of_iso


@dataclass(frozen=True)
class OffsetChange:
    """The committed offset of one partition (None if there is none), and the new one."""

    partition: TopicPartition
    before: int | None
    after: int
    note: str = ""


class Target(Protocol):
    """A rule for the new offsets of a reset."""

    def offsets(
        self, partitions: list[TopicPartition], committed: Mapping[TopicPartition, int], log: Offsets
    ) -> dict[TopicPartition, int]:
        """Returns the offset of each partition, which need not be one that the partition has. Raises ConfigError."""


def changes(
    target: Target, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int], log: Offsets
) -> list[OffsetChange]:
    """Returns the change of each partition's offset. An offset that does not exist becomes the nearest, as in
    Kafka's tool, and ``note`` shows that."""
    asked = sorted(partitions)
    wanted = target.offsets(asked, committed, log)
    first, ends = log.beginning_offsets(asked), log.end_offsets(asked)
    found = []
    for each in asked:
        offset = min(max(wanted[each], first[each]), ends[each])
        note = "" if offset == wanted[each] else f"offset {wanted[each]} does not exist: the nearest one is used"
        found.append(OffsetChange(each, committed.get(each), offset, note))
    return found


@dataclass(frozen=True)
class ToEarliest(Target):
    """The first record of each partition."""

    @override
    def offsets(
        self, partitions: list[TopicPartition], committed: Mapping[TopicPartition, int], log: Offsets
    ) -> dict[TopicPartition, int]:
        return log.beginning_offsets(partitions)


@dataclass(frozen=True)
class ToLatest(Target):
    """The next record that is written."""

    @override
    def offsets(
        self, partitions: list[TopicPartition], committed: Mapping[TopicPartition, int], log: Offsets
    ) -> dict[TopicPartition, int]:
        return log.end_offsets(partitions)


@dataclass(frozen=True)
class ToOffset(Target):
    """One offset for all partitions."""

    offset: int

    @override
    def offsets(
        self, partitions: list[TopicPartition], committed: Mapping[TopicPartition, int], log: Offsets
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.offset)


@dataclass(frozen=True)
class ToTime(Target):
    """The first record of that time (ms), or the end."""

    time_ms: int

    @override
    def offsets(
        self, partitions: list[TopicPartition], committed: Mapping[TopicPartition, int], log: Offsets
    ) -> dict[TopicPartition, int]:
        return log.offsets_at(partitions, self.time_ms)


@dataclass(frozen=True)
class ShiftBy(Target):
    """Number of records after the committed offset; before it if negative."""

    records: int

    @override
    def offsets(
        self, partitions: list[TopicPartition], committed: Mapping[TopicPartition, int], log: Offsets
    ) -> dict[TopicPartition, int]:
        # Kafka's tool would count from the end where nothing is committed.
        if without := [each for each in partitions if each not in committed]:
            raise ConfigError(
                f"--shift-by: partition {without[0]} has no committed offset to shift: choose another option, or give "
                "each partition's offset with --from-file"
            )
        return {each: committed[each] + self.records for each in partitions}


@dataclass(frozen=True)
class FromFile(Target):
    """An offset for each partition."""

    path: str
    given: Mapping[TopicPartition, int]

    @override
    def offsets(
        self, partitions: list[TopicPartition], committed: Mapping[TopicPartition, int], log: Offsets
    ) -> dict[TopicPartition, int]:
        # Every partition must be in the file, and no other.
        if without := [each for each in partitions if each not in self.given]:
            raise ConfigError(
                f"--from-file {self.path} has no offset for partition {without[0].partition} of topic "
                f"{without[0].topic!r}: every partition of every input topic needs one"
            )
        if others := sorted(self.given.keys() - set(partitions)):
            raise ConfigError(
                f"--from-file {self.path} names partition {others[0].partition} of topic {others[0].topic!r}, which is "
                "no partition of an input topic"
            )
        return {each: self.given[each] for each in partitions}


def chosen(
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    from_file: Path | None,
    now_ms: int,
) -> Target:
    """Returns the target that the options of the command name; the earliest offset if none does. Raises ConfigError for
    more than one, and for a text that cannot be read."""
    given: dict[str, Target] = {}
    if to_earliest:
        given["--to-earliest"] = ToEarliest()
    if to_latest:
        given["--to-latest"] = ToLatest()
    if to_offset is not None:
        given["--to-offset"] = ToOffset(to_offset)
    if to_datetime is not None:
        given["--to-datetime"] = ToTime(time_of(to_datetime))
    if by_duration is not None:
        given["--by-duration"] = ToTime(now_ms - duration_of(by_duration))
    if shift_by is not None:
        given["--shift-by"] = ShiftBy(shift_by)
    if from_file is not None:
        given["--from-file"] = from_csv(from_file)
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)}: give one of them")
    return next(iter(given.values()), ToEarliest())


def time_of(text: str) -> int:
    """Returns the time in ms since 1970. As in Kafka's tool, a time is in UTC unless it names its zone."""
    try:
        if "T" not in text:
            raise ValueError
        return ms_of_iso(text, WithoutZone.UTC)
    except ValueError:
        raise ConfigError(
            f"--to-datetime {text!r} is no time such as 2026-11-21T09:30:00.000 (UTC) or 2026-11-21T09:30:00+01:00"
        ) from None


def duration_of(text: str) -> int:
    """Returns a duration of ISO 8601 in ms."""
    try:
        if not text.startswith("P"):
            raise ValueError
        return int(TypeAdapter(timedelta).validate_python(text).total_seconds() * 1000)
    except (ValidationError, ValueError):
        raise ConfigError(
            f"--by-duration {text!r} is no duration such as PT30M, P1D or P1DT2H30M (PnDTnHnMnS)"
        ) from None


def from_csv(path: Path) -> FromFile:
    """Reads lines of topic, partition, offset, as Kafka's tools write and read them."""
    given: dict[TopicPartition, int] = {}
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--from-file {path} cannot be read: {error}") from error
    for number, row in enumerate(csv.reader(lines), 1):
        if not row:
            continue
        try:
            topic, partition, offset = row
            given[TopicPartition(topic.strip(), int(partition))] = int(offset)
        except ValueError:
            raise ConfigError(
                f"--from-file {path}, line {number}: {','.join(row)!r} is not TOPIC,PARTITION,OFFSET"
            ) from None
    if not given:
        raise ConfigError(f"--from-file {path} is empty: it needs lines of TOPIC,PARTITION,OFFSET")
    return FromFile(str(path), given)
