"""Notes about replays: which dead letters were written again, and to which topic.

They are in a compacted topic of one partition, beside the dead letter topic. A replay writes records and the note about
them in one transaction, so readers of committed records see both or neither, and no letter is replayed twice.

A note needs no list of letters: it has the filter of the replay, and the offset of each partition up to which the
replay has come.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from penstock.cluster.dead_letters.letters import Filter, Letter
from penstock.common.errors import ConfigError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.topics import NewTopic
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import Admin
from penstock.kafka.noted_transactions import ProgressRecord
from penstock.kafka.range_reader import KafkaReader

SUFFIX = "-replays"


class Replay(msgspec.Struct, frozen=True):
    """A replay: all letters that it selects are written to the topic ``to``, or if that is None each to its source.

    Letters from the topics ``without`` are left out: these topics did not exist. ``topic_id``: of the dead letter
    topic; a topic that was deleted and created again has other letters.
    """

    filter: Filter
    to: str | None = None
    without: tuple[str, ...] = ()
    topic_id: str = ""

    def selects(self, letter: Letter, dead_letter_topic: str) -> bool:
        """Returns True if this replay writes ``letter`` again."""
        if letter.source in self.without or left_out(letter, self.to, dead_letter_topic) is not None:
            return False
        return self.filter.matches(letter)


FOREIGN = "have no error headers, so another program wrote them: --to TOPIC replays them too"
NO_SOURCE = "name no source topic: --to TOPIC replays them"
NO_RECORD = "have neither key nor value: the record's bytes were not kept when it failed"
OWN = "came from this topic itself: --to TOPIC replays them"


def left_out(letter: Letter, to: str | None, dead_letter_topic: str) -> str | None:
    """Returns the reason why no replay to ``to`` (None: to the source) writes ``letter``, or None if one may."""
    if letter.key is None and letter.value is None:
        return NO_RECORD
    if to is not None:
        return None
    if letter.error is None:
        return FOREIGN
    if letter.source is None:
        return NO_SOURCE
    return OWN if letter.source == dead_letter_topic else None


class _Key(msgspec.Struct, frozen=True):
    replay: Replay
    partition: int


class _Note(msgspec.Struct, frozen=True):
    """``end``: all letters before this offset that the replay selects are written. ``at``: when, in ms."""

    end: int
    at: int


class PastReplay(NamedTuple):
    """A topic to which a letter was replayed (None: its source), and the latest possible time (ms) of the replay."""

    to: str | None
    at: int


@dataclass
class Notes:
    """The notes about the dead letter topic ``topic``, whose id is ``topic_id``."""

    topic: str
    topic_id: str = ""
    _ends: dict[int, dict[Replay, _Note]] = field(default_factory=dict)

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record of the topic of notes. Raises ConfigError if it is no note."""
        try:
            of = msgspec.json.decode(key or b"", type=_Key)
            note = msgspec.json.decode(value or b"", type=_Note)
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"topic {notes_topic(self.topic)!r} holds a record that is no note of a replay ({error}): key {key!r}. "
                "Only 'penstock dlq replay' may write to it"
            ) from None
        if of.replay.topic_id == self.topic_id:
            self._ends.setdefault(of.partition, {})[of.replay] = note

    def replays_of(self, letter: Letter) -> list[PastReplay]:
        """Returns the destinations to which ``letter`` was replayed, each once.

        Several replays may have passed the letter, by different filters, and only one of them has written it. So the
        time is that of the oldest note; the letter was written then or before.
        """
        passed: dict[str | None, int] = {}
        for replay, note in self._ends.get(letter.partition, {}).items():
            if letter.offset < note.end and replay.selects(letter, self.topic):
                passed[replay.to] = min(note.at, passed.get(replay.to, note.at))
        return [PastReplay(to, at) for to, at in passed.items()]

    def has_replayed(self, letter: Letter, to: str | None) -> bool:
        """Returns True if ``letter`` was replayed to ``to``."""
        return any(
            replay.to == to and letter.offset < note.end and replay.selects(letter, self.topic)
            for replay, note in self._ends.get(letter.partition, {}).items()
        )

    def ends_of(self, replay: Replay) -> dict[int, int]:
        """Returns the offset up to which ``replay`` has come, for each partition in which it has begun."""
        return {partition: notes[replay].end for partition, notes in self._ends.items() if replay in notes}


def note_record(replay: Replay, partition: int, end: int, at_ms: int) -> ProgressRecord:
    """Returns the record that notes that ``replay`` has come up to offset ``end`` of a partition."""
    return ProgressRecord(msgspec.json.encode(_Key(replay, partition)), msgspec.json.encode(_Note(end, at_ms)))


def notes_topic(dead_letter_topic: str) -> str:
    """Returns the name of the topic of notes."""
    return dead_letter_topic + SUFFIX


def create_notes_topic(admin: Admin, dead_letter_topic: str) -> None:
    """Create the topic of notes if it does not exist. It may exist because this client may not create topics."""
    name = notes_topic(dead_letter_topic)
    if name not in admin.topics():
        admin.create_topics([NewTopic(name, 1, config={"cleanup.policy": "compact"})])


def read_notes(clients: KafkaClients, dead_letter_topic: str, *, wait: bool = False) -> Notes:
    """Returns all notes; none if there is no topic of notes. ``clients`` must read committed records.

    ``wait``: wait until each transaction that is open now has ended. Without it, notes behind the first of them may be
    missing.
    """
    admin = clients.admin()
    notes = Notes(dead_letter_topic, admin.topic_ids([dead_letter_topic]).get(dead_letter_topic, ""))
    partition = TopicPartition(notes_topic(dead_letter_topic), 0)
    if partition.topic not in admin.topics():
        return notes
    end = (admin.high_watermarks([partition]) if wait else admin.end_offsets([partition]))[partition]
    with closing(clients.restore_consumer()) as consumer:
        begin = consumer.fetch_beginning_offsets([partition])[partition]
        for batch in KafkaReader(consumer, {partition: OffsetRange(begin, end)}).batches(partition):
            for key, value in zip(batch.keys, batch.values, strict=True):
                notes.take(key, value)
    return notes
