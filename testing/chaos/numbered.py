"""The program that comes with the harness. Records are numbered per key, so the truth about every result is known
without a second run.

::

    numbers ──> Stamp ──> repartition ──> count [counts] ──> counts-out
                                     ├──> follow [tallies]
                                     ├──> count in windows [windows] ──> windows-out
    marks ───────────────────────────┴──> join of streams ──> joined-out

``Stamp`` adds to each number the life of its task in which the record was processed. ``follow`` keeps in its state
which number comes next: a state that is older than the offsets it was committed with shows as a gap. A window holds ten
numbers of a key, and every tenth number has a mark of the same time, which it is joined with.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from penstock.common.handlers import LogAndContinue
from penstock.common.records import Record
from penstock.common.serdes import Serdes
from penstock.common.windows import Windowed
from penstock.testing.chaos import checks
from penstock.testing.chaos.program import AtRest, Guarantee, Program, Written
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.join_windows import JoinWindows
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Grouped, Produced, Repartitioned
from penstock.topology.options.stream_joined import StreamJoined
from penstock.topology.options.windows import TimeWindows
from penstock.topology.physical.topology import Topology
from penstock.topology.processor_api.processor import Processor, ProcessorContext

INPUT, MARKS = "numbers", "marks"
OUTPUT, WINDOWS_OUT, JOINED, LETTERS = "counts-out", "windows-out", "joined-out", "dead-letters"
POISON = b"poison"
"""A value that is no long, because it has six bytes."""
COUNTS, TALLIES, WINDOWS = "counts", "tallies", "windows"
STAMPED = "stamped-repartition"
PARTITIONS = 4
KEYS = 1000
EACH_MS = 100
"""Milliseconds from one number of a key to the next, in the records' own time."""
IN_A_WINDOW = 10
WINDOW_MS = IN_A_WINDOW * EACH_MS
# One partition of the repartition topic is written by four tasks, and one may lag a whole run behind another.
_GRACE_MS = 86_400_000


class Stamped(NamedTuple):
    """The ``number``-th record of its key, processed in this ``attempt``: one life of one task."""

    number: int
    attempt: str

    def __str__(self) -> str:
        return f"{self.number} {self.attempt}"

    @classmethod
    def of(cls, text: str) -> Stamped:
        """Read what ``str`` writes."""
        number, attempt = text.split(" ")
        return cls(int(number), attempt)


class Tally(TypedDict):
    """The state of a key: the number that comes next, how many came again, how many were missing."""

    next: int
    repeats: int
    gaps: int


class Stamp(Processor[str, int, str, str]):
    """Distinguishes the lives of a task: a task that is opened again has a new instance."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        """Begin a life."""
        self._context = context
        self._attempt = uuid.uuid4().hex[:12]

    def process(self, record: Record[str, int]) -> None:
        """Stamp one record."""
        self._context.forward(record.with_value(str(Stamped(record.value, self._attempt))))


def follow(value: str, tally: Tally) -> Tally:
    """Returns the tally with one more number."""
    number = Stamped.of(value).number
    return {
        "next": max(tally["next"], number + 1),
        "repeats": tally["repeats"] + (number < tally["next"]),
        "gaps": tally["gaps"] + max(0, number - tally["next"]),
    }


def key(number: int) -> str:
    """Returns the name of the ``number``-th key."""
    return f"k{number:04}"


def window_key(name: str, start_ms: int) -> str:
    """Returns the name of a window of a key in the output."""
    return f"{name}@{start_ms}"


def in_windows(expected: Mapping[str, int], begin_ms: int) -> dict[str, int]:
    """Returns the count of numbers that each window of each key has in the end."""
    return {
        window_key(name, begin_ms + first * EACH_MS): min(IN_A_WINDOW, count - first)
        for name, count in expected.items()
        for first in range(0, count, IN_A_WINDOW)
    }


def marked(expected: Mapping[str, int]) -> dict[str, set[int]]:
    """Returns the numbers of each key that are joined with a mark."""
    return {name: set(range(0, count, IN_A_WINDOW)) for name, count in expected.items()}


def _is_marked(_: str, value: str) -> bool:
    return value.split(" ")[0].endswith("0")


def _named(windowed: Windowed[str], count: int) -> tuple[str, int]:
    return window_key(windowed.key, windowed.window.start), count


def topology() -> Topology:
    """Returns the topology of the program."""
    string, long, json = Serdes.string(), Serdes.long(), Serdes.json()
    builder = StreamsBuilder()
    stamped = (
        builder.stream(INPUT, Consumed.with_(string, long))
        .process(Stamp)
        .repartition(Repartitioned.with_(string, string).with_name(STAMPED.removesuffix("-repartition")))
    )
    grouped = stamped.group_by_key(Grouped.with_(string, string))
    counts = grouped.count(Materialized.as_(COUNTS))
    counts.to_stream().to(OUTPUT, Produced.with_(string, long))
    grouped.aggregate(
        lambda: Tally(next=0, repeats=0, gaps=0),
        lambda _, value, tally: follow(value, tally),
        Materialized.as_(TALLIES).with_value_serde(json),
    )
    windows = grouped.windowed_by(TimeWindows.of_size_and_grace(WINDOW_MS, _GRACE_MS))
    windows.count(Materialized.as_(WINDOWS)).to_stream().map(_named).to(WINDOWS_OUT, Produced.with_(string, long))
    stamped.filter(_is_marked).join(
        builder.stream(MARKS, Consumed.with_(string, long)),
        lambda stamp, mark: f"{Stamped.of(stamp).number} {mark}",
        JoinWindows.of_time_difference_and_grace(0, _GRACE_MS),
        StreamJoined.with_(string, string, long).with_name("joined").with_store_name("joined"),
    ).to(JOINED, Produced.with_(string, string))
    return builder.build()


class Numbered(Program):
    """Records of keys, a thousand by default, each with its number among the records of its key: 0, 1, 2 …

    ``records``: the least number of them. ``begin_ms``: the time of the first, where a window begins. After ``check``,
    ``repeated`` is the count of numbers that went through the repartition topic again.
    """

    def __init__(self, records: int, begin_ms: int | None = None, keys: int = KEYS) -> None:
        self.topics = dict.fromkeys((INPUT, MARKS, OUTPUT, WINDOWS_OUT, JOINED, LETTERS), PARTITIONS)
        self.config = {
            "deserialization.exception.handler": LogAndContinue(),
            "errors.dead.letter.queue.topic.name": LETTERS,
        }
        self.counting_up = COUNTS, [key(number) for number in range(keys)]
        self.rounds = -(-records // keys)
        now_ms = time.time_ns() // 1_000_000 if begin_ms is None else begin_ms
        self._begin_ms = now_ms - now_ms % WINDOW_MS
        self._keys = [(key(number).encode(), number % PARTITIONS) for number in range(keys)]
        self.repeated = 0

    @property
    def expected(self) -> dict[str, int]:
        """The count of numbers that each key has in the end."""
        return {name.decode(): self.rounds for name, _ in self._keys}

    def topology(self) -> Topology:
        """Returns the topology that the module describes."""
        return topology()

    def round(self, number: int) -> Iterator[Written]:
        """Yields one number of each key. All of a key go to one partition, another one than the repartition topic's."""
        value, at_ms = Serdes.long().serialize(number), self._begin_ms + number * EACH_MS
        for name, partition in self._keys:
            yield Written(INPUT, name, value, at_ms, partition)
        if number % IN_A_WINDOW == 0:
            for name, _ in self._keys:
                yield Written(MARKS, name, value, at_ms)

    def poison(self) -> Sequence[Written]:
        """Returns records whose values have six bytes, which no long has."""
        return [
            Written(topic, name, POISON, self._begin_ms, partition)
            for topic in (INPUT, MARKS)
            for name, partition in self._keys[:PARTITIONS]
        ]

    def check(self, at_rest: AtRest) -> Iterable[str]:
        """Compare all results with the closed form."""
        long, truth = Serdes.long().deserialize, self.expected
        written = ((name.decode(), value) for name, value in at_rest.read(INPUT))
        numbers = ((name, long(value)) for name, value in written if value is not None and value != POISON)
        yield from checks.numbered(numbers, truth)
        stamped = at_rest.read(at_rest.internal(STAMPED))
        moved = [(name.decode(), Stamped.of(value.decode())) for name, value in stamped if value is not None]
        self.repeated = len(moved) - sum(truth.values())
        counts, tallies = at_rest.rows(COUNTS), at_rest.rows(TALLIES)
        windows = _last(at_rest.read(WINDOWS_OUT), long)
        joined = [(name.decode(), _joined(value)) for name, value in at_rest.read(JOINED) if value is not None]
        bad = [name for topic in (INPUT, MARKS) for name, value in at_rest.read(topic) if value == POISON]
        letters = [name for name, value in at_rest.read(LETTERS) if value == POISON]
        yield from checks.lettered(bad, letters, exactly=at_rest.guarantee is Guarantee.EXACTLY)
        yield from checks.complete(moved, truth)
        yield from checks.in_order(moved)
        yield from checks.followed(tallies, truth)
        yield from checks.counted(counts, truth)
        yield from checks.counted(windows, in_windows(truth, self._begin_ms), "in windows, ")
        yield from checks.joined(joined, marked(truth))
        yield from checks.equal("the output is not the store", _last(at_rest.read(OUTPUT), long), counts)
        if at_rest.guarantee is Guarantee.EXACTLY:
            yield from checks.each_once(moved, counts, tallies, truth)
            yield from checks.equal("windows counted otherwise than once", windows, in_windows(truth, self._begin_ms))
            yield from checks.joined_once(joined)


def _joined(value: bytes) -> tuple[int, int]:
    number, mark = value.decode().split(" ")
    return int(number), int(mark)


def _last(records: Iterable[tuple[bytes, bytes | None]], deserialize: Any) -> dict[str, Any]:
    last = dict(records)
    return {name.decode(): deserialize(value) for name, value in last.items() if value is not None}
