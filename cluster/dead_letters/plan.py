"""The plan of a replay: which dead letters are written again, to which topic and partition, and why others are not.

The plan reads the letters once and counts them. The replay reads them again, up to the same offsets, and decides the
same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.cluster.dead_letters.letters import Letter
from penstock.cluster.dead_letters.notes import Notes, Replay, left_out
from penstock.common.murmur2 import partition_for
from penstock.common.shown import counted

BEFORE = "were replayed before"
SAME = "are further letters of a record: it is replayed once"


class Destination(NamedTuple):
    """The topic and partition to which a letter is written."""

    topic: str
    partition: int


@dataclass(frozen=True)
class Route:
    """Decides where letters go. ``partitions``: the number of partitions of each topic that exists."""

    dead_letter_topic: str
    partitions: Mapping[str, int]
    to: str | None = None
    by_key: bool = False

    def destination(self, letter: Letter) -> Destination | str:
        """Returns the destination of ``letter``, or the reason why it has none.

        Back in its source topic it gets the partition that it had, which other partitioners than Kafka's default may
        have chosen. If the topic has no such partition any more, or with ``by_key``, or in another topic, Kafka's
        default partitioner chooses by the key. Without a key it is the partition that it had, modulo their number.
        """
        reason = left_out(letter, self.to, self.dead_letter_topic)
        if reason is not None:
            return reason
        topic = self.to or letter.source or ""
        count = self.partitions.get(topic)
        if count is None:
            return gone(topic)
        had = None if letter.error is None else letter.error.partition
        if self.to is None and not self.by_key and had is not None and had < count:
            return Destination(topic, had)
        if letter.key is not None:
            return Destination(topic, partition_for(letter.key, count))
        return Destination(topic, (letter.partition if had is None else had) % count)


def gone(topic: str) -> str:
    """Returns the reason why letters from a topic that does not exist are not replayed."""
    return f"came from topic {topic!r}, which does not exist: create it, or give --to TOPIC"


@dataclass
class Plan:
    """The letters that a replay would write. ``ends``: the offset of each partition up to which it reads.

    ``moved``: number of letters that go to another partition than the one from which they came, back in their source
    topic. ``elsewhere``: number of those that go to the partition from which they came, although Kafka's default
    partitioner would choose another by the key.
    """

    route: Route
    limit: int | None = None
    read: int = 0
    matching: int = 0
    written: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    gone: set[str] = field(default_factory=set)
    again: int = 0
    moved: int = 0
    elsewhere: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    is_full: bool = False
    """True if it has as many letters as ``limit`` allows."""
    replayed: set[int] = field(default_factory=set)
    """The records that earlier replays wrote, by :attr:`~penstock.cluster.dead_letters.letters.Letter.record_id`."""
    _planned: dict[int, str] = field(default_factory=dict)
    """The records that this one writes, and their topics."""

    @property
    def letters(self) -> int:
        """Number of letters that are written again."""
        return self.written.total()

    def take(self, letter: Letter, replay: Replay, notes: Notes) -> None:
        """Count the next letter."""
        self.read += 1
        before = notes.has_replayed(letter, self.route.to)
        if before:
            self._take_replayed(letter.record_id)
        if self.is_full:
            return  # a later letter may show that a record was replayed
        self.ends[letter.partition] = letter.offset + 1
        if replay.filter.matches(letter):
            self._take_selected(letter, before=before)
            self.is_full = self.letters == self.limit

    def _take_selected(self, letter: Letter, *, before: bool) -> None:
        self.matching += 1
        to = self.route.destination(letter)
        if isinstance(to, str):
            self.left[to] += 1
            if letter.source is not None and to == gone(letter.source):
                self.gone.add(letter.source)
        elif before:
            self.left[BEFORE] += 1
        else:
            self._take_written(letter, to)

    def _take_replayed(self, record: int | None) -> None:
        if record is None:
            return
        self.replayed.add(record)
        topic = self._planned.pop(record, None)
        if topic is not None:  # another letter about it came first
            self.written[topic] -= 1
            self.left[SAME] += 1

    def _take_written(self, letter: Letter, to: Destination) -> None:
        record = letter.record_id
        if record is not None:
            if record in self.replayed or record in self._planned:
                self.left[SAME] += 1
                return
            self._planned[record] = to.topic
        self.written[to.topic] += 1
        self.again += letter.replayed is not None
        self._take_partition(letter, to)

    def _take_partition(self, letter: Letter, to: Destination) -> None:
        had = None if letter.error is None else letter.error.partition
        if self.route.to is not None or had is None:
            return
        if had != to.partition:
            self.moved += 1
        elif letter.key is not None and partition_for(letter.key, self.route.partitions[to.topic]) != had:
            self.elsewhere += 1

    def lines(self) -> list[str]:
        """Returns the plan as lines for people."""
        found = [f"{counted(self.matching, 'letter')} of {self.read:,} selected"]
        found += [f"  {count:,} to topic {topic}" for topic, count in sorted((+self.written).items())]
        if self.again:
            found.append(f"  {self.again:,} of them are of records that were replayed before and have failed again")
        if self.moved:
            found.append(f"  {self.moved:,} of them go to another partition than the one that they came from")
        if self.elsewhere:
            found.append(
                f"  {self.elsewhere:,} of them go to the partition that they came from, although Kafka's default "
                "partitioner would choose another now: another partitioner wrote them, or the topic has more "
                "partitions since. --by-key follows the default partitioner"
            )
        return found + [f"  {count:,} not replayed: they {reason}" for reason, count in self.left.most_common()]

    def body(self) -> dict[str, object]:
        """Returns the plan for JSON."""
        return {
            "read": self.read, "selected": self.matching, "replayed": dict(+self.written), "left": dict(self.left),
            "failed_again": self.again, "other_partition": self.moved,
        }  # fmt: skip
