"""Reads the newest dead letters, and shows them decoded, for the HTTP server. Blocks: runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.dead_letters.letters import Letter
from penstock.cluster.dead_letters.notes import Notes, PastReplay, read_notes
from penstock.cluster.dead_letters.replay import CONSUMER_SETTINGS, GROUP, PRODUCER_SETTINGS
from penstock.cluster.letter_side import (
    LetterOrigin,
    LetterReplay,
    ShownLetter,
    ShownLetters,
)
from penstock.cluster.record_side import Looked
from penstock.cluster.topic_reading.kept_records import Kept, decoded, kept_of, raw_record
from penstock.cluster.topic_reading.newest import Newest
from penstock.cluster.topic_reading.peek import MOST_BYTES, MOST_S
from penstock.cluster.topic_reading.range_reads import Budget, RangeReads, offsets_of
from penstock.cluster.topic_reading.showing import DECODE_S, Decoder, clipped_headers
from penstock.cluster.topic_reading.sources import PickledSerdes, reading_clients
from penstock.cluster.topic_reading.topic_serdes import KnownTopics, TopicSerdes
from penstock.common.dead_letters import LetterError, Replayed, own_headers
from penstock.common.offset_ranges import OffsetRange
from penstock.common.records import RecordBatch
from penstock.common.secrets import Entries
from penstock.kafka.clients import ConfluentClients, KafkaClients

_LONGEST_MESSAGE = 2 << 10
_LARGEST = (1 << 63) - 1
_TRACE_IN_LIST, LONGEST_TRACE = 4 << 10, 64 << 10
_NO_SERDES = "the application does not read the topic that the record came from"


@dataclass(frozen=True)
class LetterSource:
    """The means to read and replay the dead letters of an application. ``topic`` is None if it has no dead letter
    topic. ``reading`` fetches little ahead; ``writing`` is for replays."""

    topic: str | None
    reading: KafkaClients
    writing: KafkaClients


class ReadLetters(NamedTuple):
    """Letters as they are read, the newest first."""

    letters: list[_Found]
    looked: tuple[Looked, ...]
    stopped: str | None


class _Found(NamedTuple):
    """A letter, whose large parts are clipped, and its replays."""

    kept: Kept
    error: LetterError | None
    replays: list[PastReplay]
    before: Replayed | None


def letter_source(spec: ApplicationSpec) -> LetterSource:
    """Returns the means to read and replay the dead letters of the program."""
    config = spec.config
    clients = ConfluentClients.of(config)
    reading = reading_clients(config)
    reading = replace(reading, consumer_overrides=Entries({**reading.consumer_overrides, **CONSUMER_SETTINGS}))
    writing = replace(
        clients,
        group=GROUP,
        consumer_overrides=Entries({**clients.consumer_overrides, **CONSUMER_SETTINGS}),
        producer_overrides=Entries({**clients.producer_overrides, **PRODUCER_SETTINGS}),
        exactly_once=False,
    )
    return LetterSource(config.errors_dead_letter_queue_topic_name, reading, writing)


def serdes_of_topics(spec: ApplicationSpec, topics: tuple[str, ...]) -> dict[str, PickledSerdes]:
    """Returns the serdes of those of ``topics`` that the program has."""
    known = KnownTopics(spec.topology, spec.config)
    return {topic: PickledSerdes.of(found) for topic in topics if (found := known.find(topic)) is not None}


def read_letters(
    clients: KafkaClients, topic: str, limit: int, place: tuple[int, int] | None = None, budget: Budget | None = None
) -> ReadLetters:
    """Returns the newest letters, or the one at ``place`` (partition, offset)."""
    budget = budget or Budget(MOST_BYTES, MOST_S)
    notes = read_notes(clients, topic)
    trace = _TRACE_IN_LIST if place is None else LONGEST_TRACE
    found: dict[tuple[int, int], _Found] = {}

    def keep(batch: RecordBatch, index: int) -> Kept:
        letter, kept = _found(batch, index, notes, trace)
        found[kept.partition, kept.offset] = letter
        return kept

    with closing(clients.restore_consumer()) as consumer:
        ranges = offsets_of(clients, consumer, topic)
        if place is not None:
            partition, offset = place
            there = ranges.get(partition, OffsetRange(0, 0))
            ranges = {partition: there.common(OffsetRange(offset, offset + 1))}
        newest = Newest(ranges, limit, keep)
        reads = RangeReads(consumer, topic, budget)
        while (windows := newest.next_round()) and not budget.is_over:
            reads.read(windows, newest.take, newest.end_window)
    letters = [found[each.partition, each.offset] for each in newest.records()]
    return ReadLetters(letters, tuple(newest.looked()), budget.stopped)


def _found(batch: RecordBatch, index: int, notes: Notes, longest_trace: int) -> tuple[_Found, Kept]:
    kept = kept_of(batch, index)
    headers = (batch.headers[index] if batch.headers is not None else None) or ()
    letter = Letter(kept.partition, kept.offset, batch.keys[index], batch.values[index], kept.timestamp, headers)
    own = own_headers(headers)
    kept = kept._replace(headers=clipped_headers(own), header_count=len(own))
    error = letter.error
    if error is not None:
        error = error._replace(
            exception=_cut(error.exception, _LONGEST_MESSAGE),
            message=None if error.message is None else _cut(error.message, _LONGEST_MESSAGE),
            stacktrace=None if error.stacktrace is None else _cut(error.stacktrace, longest_trace),
            topic=None if error.topic is None else _cut(error.topic, _LONGEST_MESSAGE),
            partition=_possible(error.partition),
            offset=_possible(error.offset),
        )
    return _Found(kept, error, notes.replays_of(letter), letter.replayed), kept


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _possible(number: int | None) -> int | None:
    """Returns None for a number that no partition or offset can be: any program may have written the header."""
    return None if number is None or number > _LARGEST else number


def origins_of(letters: Iterable[_Found]) -> tuple[str, ...]:
    """Returns the topics that the letters came from."""
    return tuple(dict.fromkeys(each.error.topic for each in letters if each.error is not None and each.error.topic))


def shown_letters(topic: str, read: ReadLetters, pickled: Mapping[str, PickledSerdes]) -> ShownLetters:
    """Returns the letters, with keys and values decoded by the serdes of the topics that they came from."""
    budget = Budget(MOST_BYTES, DECODE_S)
    decoder = Decoder(budget.until_s, budget.clock)
    serdes = {name: each.unpickled() for name, each in pickled.items()}
    return ShownLetters(topic, tuple(_shown(decoder, serdes, each) for each in read.letters), read.looked, read.stopped)


def _shown(decoder: Decoder, serdes: Mapping[str, TopicSerdes | str], found: _Found) -> ShownLetter:
    kept, error = found.kept, found.error
    origin = (
        LetterOrigin(None, None, None) if error is None else LetterOrigin(error.topic, error.partition, error.offset)
    )
    known = serdes.get(origin.topic or "", _NO_SERDES)
    key, value = decoded(decoder, known, kept)
    return ShownLetter(
        raw_record(kept),
        origin,
        None if error is None else error.exception,
        None if error is None else error.message,
        None if error is None else error.stacktrace,
        key,
        value,
        tuple(LetterReplay(each.to or origin.topic, each.at) for each in found.replays),
        0 if found.before is None else _possible(found.before.count) or 0,
    )
