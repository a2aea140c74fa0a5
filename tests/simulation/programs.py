"""Programs drawn from the DSL whose results do not depend on the order between partitions, and records for them.

A value is a text of tokens, each token one input record. Aggregators gather tokens, joiners concatenate both sides, so
a result shows of which records it was made. Under exactly once these must be the same as without faults; under at least
once none of them may be missing.

*Late* topics have records out of order and feed sub-topologies with one input. Topics that are joined are written in
the order of time, so that a task reads them in the same order however they arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from random import Random
from typing import Any

from typing_extensions import override

import penstock as ps
from penstock.common.windows import Windowed

STRING = ps.Serdes.string()
KEYS = ["a", "b", "c", "d", "e", "f"]
APPLICATION = "app"
LETTERS = "dead-letters"
CHANGES = "changes"
"""The topic in which each key has a few records, and then none any more."""
SECOND = timedelta(seconds=1)
_BEHIND_ALL_OUTAGES = timedelta(hours=2)
_BEHIND_ALL_WINDOWS_MS = 60_000
"""Twice the longest window of a join with its grace period."""


@dataclass(frozen=True)
class Row:
    """One input record."""

    topic: str
    key: str
    value: str | None
    timestamp: int


@dataclass
class Program:
    """A topology with what it reads and writes.

    ``tables``: topics of which the last value of a key counts; ``streams``: those of which every record counts;
    ``lookups``: streams of which each record is a stream record and the value of a table that it met, with the topic of
    that table; ``let_go``: topics of results whose rows are deleted at the same moment; ``sessions``: topics of the
    sessions in a store, with its changelog; ``joined``: topics that are written in order of time; ``late``: topics with
    records out of order; ``global_topics``: topics that are full before the program begins.
    """

    blocks: tuple[str, ...]
    topology: ps.Topology
    tables: tuple[str, ...]
    streams: tuple[str, ...]
    lookups: dict[str, str]
    let_go: tuple[str, ...]
    sessions: dict[str, str]
    joined: tuple[str, ...]
    late: tuple[str, ...]
    global_topics: tuple[str, ...]
    config: dict[str, Any] = field(default_factory=dict)
    """Settings that its blocks need."""


@dataclass
class Draft:
    """A program in the making."""

    rng: Random
    builder: ps.StreamsBuilder = field(default_factory=ps.StreamsBuilder)
    tables: list[str] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    lookups: dict[str, str] = field(default_factory=dict)
    let_go: list[str] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    global_topics: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)

    def stream(self, topic: str) -> Any:
        if topic not in self.sources:
            self.sources[topic] = self.builder.stream(topic, ps.Consumed.with_(STRING, STRING))
        return self.sources[topic]

    def write_table(self, stream: Any, name: str) -> None:
        self.tables.append(f"out-{name}")
        stream.to(f"out-{name}", ps.Produced.with_(STRING, STRING))

    def write_stream(self, stream: Any, name: str) -> None:
        self.streams.append(f"out-{name}")
        stream.to(f"out-{name}", ps.Produced.with_(STRING, STRING))

    def kept(self, name: str) -> Any:
        """A store with a cache or without."""
        kept: Any = ps.Materialized.as_(name).with_key_serde(STRING).with_value_serde(STRING)
        if self.rng.random() < 0.5:
            kept = kept.with_caching_disabled()
        return kept

    def grace(self) -> timedelta:
        return SECOND * self.rng.choice([0, 2, 10])


def gathered(key: str, value: str, aggregate: str) -> str:
    return f"{aggregate} {value}".strip()


def put_together(key: str, one: str, other: str) -> str:
    return f"{one} {other}".strip()


def both(one: str | None, other: str | None) -> str:
    return f"{one} {other}"


def windowed_key(windowed: Windowed[str], value: str) -> str:
    return f"{windowed.key}@{windowed.window.start}-{windowed.window.end}"


def last_letter_of(key: str, value: str) -> str:
    return value[-1]


def last_letter(value: str) -> str:
    return value[-1]


# ---- blocks ----


def aggregate(draft: Draft, name: str) -> None:
    table = draft.stream("late").group_by_key().aggregate(str, gathered, draft.kept(name))
    draft.write_table(table.to_stream(), name)


def repartitioned(draft: Draft, name: str) -> None:
    grouped = draft.stream("late").group_by(last_letter_of, ps.Grouped.with_(STRING, STRING))
    draft.write_table(grouped.aggregate(str, gathered, draft.kept(name)).to_stream(), name)


def _windows(draft: Draft, name: str, on_close: bool) -> Any:
    grouped, kind = draft.stream("late").group_by_key(), draft.rng.choice(["tumbling", "hopping", "sliding", "session"])
    emit = ps.EmitStrategy.on_window_close() if on_close else ps.EmitStrategy.on_window_update()
    grace, size = draft.grace(), SECOND * draft.rng.choice([3, 10, 30])
    kept = draft.kept(name)
    if kind != "session" and draft.rng.random() < 0.5:
        kept = kept.with_retention(size * 2 + grace + SECOND)
    if kind == "session":
        if kept.caching:  # the flush of a session that has expired leaves a result: that depends on when commits come
            kept = kept.with_retention(_BEHIND_ALL_OUTAGES)
        sessions = ps.SessionWindows.of_inactivity_gap_and_grace(size, grace)
        draft.sessions[f"out-{name}"] = f"{APPLICATION}-{name}-changelog"
        return grouped.windowed_by(sessions).emit_strategy(emit).aggregate(str, gathered, put_together, kept)
    if kind == "sliding":
        if on_close:  # at least once a crash may lose the result of one that has expired (docs/RELIABILITY.md)
            kept = kept.with_retention(_BEHIND_ALL_OUTAGES)
        windows: Any = ps.SlidingWindows.of_time_difference_and_grace(size, grace)
    else:
        windows = ps.TimeWindows.of_size_and_grace(size, grace)
        windows = windows.advance_by(SECOND) if kind == "hopping" else windows
    return grouped.windowed_by(windows).emit_strategy(emit).aggregate(str, gathered, kept)


def windowed(draft: Draft, name: str) -> None:
    table = _windows(draft, name, on_close=False)
    draft.write_table(table.to_stream(windowed_key), name)


def windowed_on_close(draft: Draft, name: str) -> None:
    table = _windows(draft, name, on_close=True)
    draft.write_table(table.to_stream(windowed_key), name)


def suppressed(draft: Draft, name: str) -> None:
    windows = ps.TimeWindows.of_size_and_grace(SECOND * draft.rng.choice([3, 10]), draft.grace())
    table = draft.stream("late").group_by_key().windowed_by(windows).aggregate(str, gathered, draft.kept(name))
    final = table.suppress(ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded()))
    draft.write_table(final.to_stream(windowed_key), name)
    draft.let_go.append(f"out-{name}")


def stream_join(draft: Draft, name: str) -> None:
    left, right = draft.stream("left"), draft.stream("right")
    within = ps.JoinWindows.of_time_difference_and_grace(SECOND * draft.rng.choice([2, 5, 20]), draft.grace())
    how = ps.StreamJoined.with_(STRING, STRING, STRING).with_name(name).with_store_name(name)
    call = draft.rng.choice([left.join, left.left_join, left.outer_join, left.outer_join])
    draft.write_stream(call(right, both, within, how), name)


def gathered_outer_join(draft: Draft, name: str) -> None:
    """Its results go into a store with a cache: they are written only by the next commit."""
    within = ps.JoinWindows.of_time_difference_and_grace(SECOND * draft.rng.choice([2, 5]), draft.grace())
    how = ps.StreamJoined.with_(STRING, STRING, STRING).with_name(name).with_store_name(name)
    joined = draft.stream("left").outer_join(draft.stream("right"), both, within, how)
    table = joined.group_by_key(ps.Grouped.with_(STRING, STRING)).aggregate(str, gathered, draft.kept(f"{name}-kept"))
    draft.write_table(table.to_stream(), name)


def stream_table(draft: Draft, name: str) -> None:
    table = draft.stream("right").to_table(draft.kept(name))
    how: Any = ps.Joined.with_(STRING, STRING, STRING)
    draft.write_stream(draft.stream("left").left_join(table, both, how), name)
    draft.lookups[f"out-{name}"] = "right"


def versioned(draft: Draft, name: str) -> None:
    store: Any = ps.Materialized.as_(ps.Stores.persistent_versioned_key_value_store(name, SECOND * 30))
    table = draft.stream("right").to_table(store.with_key_serde(STRING).with_value_serde(STRING))
    how: Any = ps.Joined.with_(STRING, STRING, STRING)
    if draft.rng.random() < 0.5:
        how = how.with_grace_period(SECOND * 5)
    draft.write_stream(draft.stream("left").left_join(table, both, how), name)


def latest(draft: Draft, name: str) -> None:
    """Each record replaces the row of its key, and no later one makes up for a wrong row: at least once, too, the last
    one must be there."""
    table = draft.stream(CHANGES).to_table(draft.kept(name))
    draft.write_table(table.to_stream(), name)


def expiring(draft: Draft, name: str) -> None:
    kept: Any = ps.Materialized.as_(name).with_ttl(SECOND * draft.rng.choice([10, 40])).with_caching_disabled()
    table = draft.stream("late-table").to_table(kept.with_key_serde(STRING).with_value_serde(STRING))
    draft.write_table(table.map_values(str.upper, draft.kept(f"{name}-kept")).to_stream(), name)


def table_join(draft: Draft, name: str) -> None:
    left = draft.stream("left").group_by_key().aggregate(str, gathered, draft.kept(f"{name}-left"))
    right = draft.stream("right").group_by_key().aggregate(str, gathered, draft.kept(f"{name}-right"))
    draft.write_table(left.outer_join(right, both, draft.kept(name)).to_stream(), name)


def foreign_key_join(draft: Draft, name: str) -> None:
    """Both sides are tables; the last letter of a value is the key of the other table."""
    left = draft.stream("late-table").to_table(draft.kept(f"{name}-left"))
    right = draft.stream("right").to_table(draft.kept(f"{name}-right"))
    call = draft.rng.choice([left.join, left.left_join])
    draft.write_table(call(right, last_letter, both, draft.kept(name)).to_stream(), name)


def deduplicated(draft: Draft, name: str) -> None:
    """Values of one key that end with the same letter are duplicates within some seconds."""
    seen: Any = ps.Deduplicated.as_(name).with_key_serde(STRING).with_value_serde(STRING).with_id_serde(STRING)
    within = SECOND * draft.rng.choice([2, 10])
    seen = seen.with_retention(SECOND * 60)  # no record is so late that the store may have forgotten it
    draft.write_stream(draft.stream("late").deduplicate(within, last_letter, seen), name)


def global_join(draft: Draft, name: str) -> None:
    if "facts" not in draft.sources:
        draft.global_topics.append("facts")
        kept: Any = ps.Materialized.as_("facts-store")
        draft.sources["facts"] = draft.builder.global_table("facts", ps.Consumed.with_(STRING, STRING), kept)
    draft.write_stream(draft.stream("late").join(draft.sources["facts"], lambda k, v: k, both), name)


class Outbox(ps.Processor[str, str, str, str]):
    """Keeps what comes, and forwards it at the next punctuation."""

    def __init__(self, name: str, by: ps.PunctuationType) -> None:
        self._name, self._by = name, by

    @override
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self._context = context
        self._store: Any = context.get_state_store(self._name)
        context.schedule(SECOND, self._by, self._forward)

    @override
    def process(self, record: ps.Record[str, str]) -> None:
        self._store.put(record.value, record.key)

    def _forward(self, timestamp: int) -> None:
        for value, key in list(self._store.all()):
            self._context.forward(ps.Record(key, value, timestamp))
            self._store.delete(value)


def punctuated(draft: Draft, name: str) -> None:
    # By stream time, what the last punctuation leaves behind would depend on when the task was opened.
    by = ps.PunctuationType.WALL_CLOCK_TIME
    store: Any = ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store(name), STRING, STRING)
    draft.builder.add_state_store(store.with_caching_enabled() if draft.rng.random() < 0.5 else store)
    draft.write_stream(draft.stream("late").process(lambda: Outbox(name, by), name), name)
    draft.let_go.append(f"out-{name}")


def _calls(draft: Draft, *orders: str) -> ps.Calls:
    retry = ps.Retry(tries=100, backoff_ms=draft.rng.choice([0, 50]), factor=1.0)  # some call fails now and then
    in_flight = draft.rng.choice([1, 4, 100])
    return ps.Calls(max_in_flight=in_flight, timeout_ms=60_000, retry=retry, order=draft.rng.choice(orders))


def _called(value: str) -> str:
    return f"{value} {value}!"


def called(draft: Draft, name: str) -> None:
    calls = _calls(draft, "key", "partition", "none")
    draft.write_stream(draft.stream("late").map_values_async(_called, calls), name)


def called_then_windowed(draft: Draft, name: str) -> None:
    """Results must go on in order: a record that another overtakes would be too late for its window."""
    stream = draft.stream("late").map_values_async(_called, _calls(draft, "key", "none"))
    windows = ps.TimeWindows.of_size_and_grace(SECOND * draft.rng.choice([3, 10]), draft.grace())
    grouped = stream.group_by_key(ps.Grouped.with_(STRING, STRING))
    table = grouped.windowed_by(windows).aggregate(str, gathered, draft.kept(name))
    draft.write_table(table.to_stream(windowed_key), name)


def called_behind_table(draft: Draft, name: str) -> None:
    """If the table has a cache, a commit leads to the calls, and waits for them."""
    table = draft.stream("late").group_by_key().aggregate(str, gathered, draft.kept(name))
    draft.write_table(table.to_stream().map_values_async(_called, _calls(draft, "key", "partition")), name)


def called_twice(draft: Draft, name: str) -> None:
    stream = draft.stream("late").map_values_async(_called, _calls(draft, "key", "none"))
    draft.write_stream(stream.map_values_async(_called, _calls(draft, "key", "partition")), name)


@dataclass(frozen=True)  # a trace shows it: the same in each run
class Lettered(ps.LogAndContinue):
    """Drops bad records with dead letters, without log lines."""

    @override
    def handle_error(self, context: ps.ErrorHandlerContext, record: Any, error: Exception) -> ps.Response:
        return ps.Response.resume(context.dead_letter_queue_records(error))


def unless_its_letter_is_a(value: str) -> str:
    if value.endswith("a"):
        raise ValueError(value)
    return value


def lettered(draft: Draft, name: str) -> None:
    """Records whose value ends with an a are bad: each has a dead letter, which is its bytes."""
    draft.write_stream(draft.stream("late").map_values(unless_its_letter_is_a), name)
    if LETTERS not in draft.streams:
        draft.streams.append(LETTERS)
    draft.config |= {"processing.exception.handler": Lettered(), "errors.dead.letter.queue.topic.name": LETTERS}


BLOCKS: dict[str, Callable[[Draft, str], None]] = {
    call.__name__: call
    for call in (
        aggregate, repartitioned, windowed, windowed_on_close, suppressed, stream_join, gathered_outer_join,
        stream_table, versioned, latest, expiring, table_join, foreign_key_join, deduplicated, global_join, punctuated,
        called, called_then_windowed, called_behind_table, called_twice,
        lettered,
    )
}  # fmt: skip


def program(rng: Random, blocks: tuple[str, ...]) -> Program:
    """A program of these blocks; ``rng`` draws their figures."""
    draft = Draft(rng)
    for number, block in enumerate(blocks):
        BLOCKS[block](draft, f"{block.replace('_', '-')}-{number}")
    read = draft.sources.keys()
    return Program(
        blocks,
        draft.builder.build(),
        tuple(draft.tables),
        tuple(draft.streams),
        draft.lookups,
        tuple(draft.let_go),
        draft.sessions,
        tuple(topic for topic in ("left", "right") if topic in read),
        tuple(topic for topic in ("late", "late-table", CHANGES) if topic in read),
        tuple(draft.global_topics),
        draft.config,
    )


def drawn(rng: Random) -> Program:
    """One to four blocks."""
    names = sorted(BLOCKS)
    return program(rng, tuple(rng.choice(names) for _ in range(rng.choice([1, 2, 2, 3, 4]))))


class Records:
    """The input, bunch by bunch: time advances between two bunches."""

    def __init__(self, rng: Random, of: Program, begin_ms: int) -> None:
        self._rng, self._program = rng, of
        self._now_ms = begin_ms
        self._number = 0
        self._new_keys = 0
        self._changing: list[str] = []
        self.facts = [Row("facts", key, f"f{key}", begin_ms) for key in KEYS] if of.global_topics else []

    def _token(self) -> str:
        self._number += 1
        return f"t{self._number}{self._rng.choice(KEYS)}"

    def bunch(self) -> list[Row]:
        """The records that are written at one moment."""
        rng = self._rng
        self._now_ms += rng.choice([100, 500, 500, 2000, 2000, 12_000])
        rows = self._changes() if CHANGES in self._program.late else []
        for topic in self._program.late:
            if topic == CHANGES:
                continue
            for _ in range(rng.choice([0, 1, 2, 4])):
                late_ms = rng.choice([0, 0, 0, 1000, 5000, 20_000])
                value = None if topic == "late-table" and rng.random() < 0.1 else self._token()
                rows.append(Row(topic, rng.choice(KEYS), value, self._now_ms - late_ms))
        for topic in self._program.joined:
            for _ in range(rng.choice([0, 1, 1, 3])):
                self._now_ms += rng.choice([1, 7, 40])
                rows.append(Row(topic, rng.choice(KEYS), self._token(), self._now_ms))
        return rows

    def _changes(self) -> list[Row]:
        """Records of keys that had one in the last bunch, and of new keys."""
        new = [f"n{self._new_keys + number}" for number in range(self._rng.choice([0, 1, 2, 4]))]
        self._new_keys += len(new)
        keys = [*self._changing, *new, *self._rng.sample(new, len(new) // 2)]
        self._changing = new
        return [Row(CHANGES, key, self._token(), self._now_ms) for key in keys]

    def each_key(self) -> list[Row]:
        """A record of each key in each topic."""
        topics = (*self._program.late, *self._program.joined)
        self._now_ms += len(topics) * len(KEYS)
        first_ms = self._now_ms - len(topics) * len(KEYS)
        return [
            Row(topic, key, self._token(), first_ms + number)
            for number, (topic, key) in enumerate(product(topics, KEYS), start=1)
        ]

    def closing(self) -> list[Row]:
        """One more record of each key in topics that are joined, so late that no earlier record waits for a match."""
        self._now_ms += _BEHIND_ALL_WINDOWS_MS
        return [
            Row(topic, key, self._token(), self._now_ms + number)
            for number, (topic, key) in enumerate(product(self._program.joined, KEYS))
        ]
