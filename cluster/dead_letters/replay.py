"""Writes dead letters again, each once: a transaction holds records and the note about them (:mod:`~.notes`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from penstock.cluster.dead_letters.letters import Filter, Letter, letters_of
from penstock.cluster.dead_letters.notes import Notes, Replay, note_record, notes_topic, read_notes
from penstock.cluster.dead_letters.plan import Destination, Plan, Route
from penstock.cluster.dead_letters.reading import Counter, Letters
from penstock.common.dead_letters import Replayed, own_headers, replayed_header
from penstock.common.offset_ranges import OffsetRange
from penstock.common.records import Header
from penstock.common.step_progress import Progress
from penstock.kafka.clients import KafkaClients
from penstock.kafka.noted_transactions import Transactions, transactions

GROUP = "penstock-dlq"
CONSUMER_SETTINGS: Mapping[str, str] = {"isolation.level": "read_committed"}
"""Settings of a consumer that reads letters and notes."""
_TRANSACTION_TIMEOUT_MS = 60_000
"""Longest time for which the records of a replay that was killed hold up readers of committed records."""
PRODUCER_SETTINGS: Mapping[str, int] = {"transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS}
_COMMIT_EACH_S = 2.0


class Pace:
    """At most ``rate`` records a second, evenly; None is as fast as possible."""

    def __init__(self, rate: float | None, clock: Callable[[], float]) -> None:
        self._each_s = 0.0 if rate is None else 1 / rate
        self._clock = clock
        self._next_s = clock()

    def wait_s(self) -> float:
        """Returns the seconds to wait before the next record, which is counted as sent then."""
        if not self._each_s:
            return 0.0
        now = self._clock()
        wait = max(0.0, self._next_s - now)
        self._next_s = max(self._next_s, now) + self._each_s
        return wait


class Planned(NamedTuple):
    """A plan, the replay that carries it out, and the letters that the replay reads."""

    plan: Plan
    replay: Replay
    letters: Letters


def plan_replay(letters: Letters, route: Route, selected: Filter, limit: int | None, progress: Progress) -> Planned:
    """Returns what a replay of ``letters`` would do. ``limit``: the number of letters after which it ends."""
    notes = read_notes(letters.clients, route.dead_letter_topic)
    plan, replay = Plan(route, limit), Replay(selected, route.to, (), notes.topic_id)
    for letter in letters.read("reading the letters", progress):
        plan.take(letter, replay, notes)
    if not plan.is_full:
        plan.ends = {at.partition: offsets.end for at, offsets in letters.ranges.items()}
    ranges = {
        at: OffsetRange(offsets.begin, plan.ends.get(at.partition, offsets.begin))
        for at, offsets in letters.ranges.items()
    }
    return Planned(
        plan, replace(replay, without=tuple(sorted(plan.gone))), Letters(letters.clients, ranges, letters.tell)
    )


@dataclass
class Replayer:
    """Carries out ``replay`` as ``plan`` says. ``written``: number of records that are committed."""

    clients: KafkaClients
    replay: Replay
    plan: Plan
    letters: Letters
    rate: float | None = None
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    written: int = 0
    _sent: int = 0
    _reached: dict[int, int] = field(default_factory=dict)
    _noted: dict[int, int] = field(default_factory=dict)
    _records: set[int] = field(default_factory=set)
    """Those that are written, by any replay."""

    @property
    def _topic(self) -> str:
        return self.plan.route.dead_letter_topic

    def run(self, progress: Progress) -> None:
        """Write the records. What another replay has begun to write is aborted, and that replay fails.

        Raises StreamsError if records cannot be written. Those of the last transaction are not written then, and the
        same replay continues before them when it is run again.
        """
        shown = Counter("replaying", self.plan.letters, progress, self.clock)
        transactional_id = f"{self._topic}-dlq-replay"
        with transactions(self.clients, transactional_id, notes_topic(self._topic), self.clock) as writer:
            notes = read_notes(self.clients, self._topic, wait=True)
            self._records = set(self.plan.replayed)
            self._noted = notes.ends_of(self.replay)
            pace = Pace(self.rate, self.clock)
            for batch in self.letters.batches("replaying", lambda _: None):
                for letter in letters_of(batch):
                    if self._is_due(letter, notes) and self._write(writer, letter, pace):
                        shown.report(self._sent)
                    self._reached[letter.partition] = letter.offset + 1
                writer.producer.poll()
                if writer.open_for_s() > _COMMIT_EACH_S:
                    self._commit(writer)
                shown.report(self._sent)
            self._reached = dict(self.plan.ends)
            self._commit(writer)

    def _is_due(self, letter: Letter, notes: Notes) -> bool:
        before = notes.has_replayed(letter, self.replay.to)
        if not before and not self.replay.selects(letter, self._topic):
            return False
        record = letter.record_id
        is_new = record is None or record not in self._records
        if record is not None:
            self._records.add(record)
        return is_new and not before

    def _write(self, writer: Transactions, letter: Letter, pace: Pace) -> bool:
        """Write the record of ``letter``. Returns True if that waited for its time."""
        to = self.plan.route.destination(letter)
        if not isinstance(to, Destination):
            return False
        wait_s = pace.wait_s()
        if writer.open_for_s() + wait_s > _COMMIT_EACH_S:
            self._commit(writer)
        if wait_s:
            self.wait(wait_s)
            writer.producer.poll()
        writer.begin()
        writer.producer.send(to.topic, letter.key, letter.value, letter.timestamp, self._headers(letter), to.partition)
        self._sent += 1
        return wait_s > 0

    def _headers(self, letter: Letter) -> list[Header]:
        before = letter.replayed
        count = 1 if before is None else before.count + 1
        here = Replayed(self._topic, letter.partition, letter.offset, count)
        return [*own_headers(letter.headers), replayed_header(here)]

    def _commit(self, writer: Transactions) -> None:
        at_ms = int(time.time() * 1000)
        # The replay reads all letters again, and an older note may be ahead of what it has read.
        further = {at: end for at, end in self._reached.items() if end > self._noted.get(at, 0)}
        writer.commit([note_record(self.replay, partition, end, at_ms) for partition, end in further.items()])
        self._noted |= further
        self._reached.clear()
        self.written = self._sent
