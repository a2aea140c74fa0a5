"""A program whose results depend on event time: closing windows, sessions, an outer join, expiring rows, versions.

::

    events ─┬─> count [counts]
            ├─> count in windows, suppressed until they close ──> windows-out
            ├─> fives, sevens: outer join ──> pairs-out
            ├─> bursts ─┬─> count, with a TTL [visits] ──> visits-out
            │           └─> count in sessions ──> sessions-out
            └─> repartition ─┬─> join with a versioned table ──> rated-out
    rates ───────────────────┘

Run it with ``python -m penstock.testing.chaos penstock.testing.chaos.timed:timed``. All keys have a record of the same
number and the same time in each round, and a key keeps its partition. So time only goes forward in each task, whatever
the faults, and the right results are known in closed form. Rates are written long before the time at which they
become valid: the join must find the rate of that time among later ones.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from penstock.common.serdes import Serdes
from penstock.common.windows import Windowed
from penstock.state.stores import Stores
from penstock.testing.chaos import checks
from penstock.testing.chaos.numbered import key
from penstock.testing.chaos.program import AtRest, Guarantee, Program, Written
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.join_windows import JoinWindows
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Grouped, Produced, Repartitioned
from penstock.topology.options.session_windows import SessionWindows
from penstock.topology.options.stream_joined import StreamJoined
from penstock.topology.options.suppressed import BufferConfig, Suppressed
from penstock.topology.options.windows import TimeWindows
from penstock.topology.physical.topology import Topology

EVENTS, RATES = "events", "rates"
WINDOWS_OUT, PAIRS_OUT, VISITS_OUT, SESSIONS_OUT, RATED_OUT = (
    "windows-out",
    "pairs-out",
    "visits-out",
    "sessions-out",
    "rated-out",
)
COUNTS, VISITS = "counts", "visits"
PARTITIONS = 4
KEYS = 250
ROUNDS = 6000
EACH_MS = 100
"""Milliseconds from one number of a key to the next, in the records' own time."""
IN_A_WINDOW = 10
BURST, PAUSE = 20, 20
"""Numbers of a key that are visits, and numbers after them that are not."""
TTL = 10
"""Numbers after which a row of visits expires: half of a pause."""
EACH_RATE = 10
"""Numbers of a key for which a rate is valid."""
RATES_AHEAD = 400
"""Numbers before which a rate is written: more than the events that may be processed before rates written earlier."""
UNCLOSED = 800
"""Numbers at the end whose outer join may lack results: it looks for windows that closed once a second at most."""
_KEPT = timedelta(days=1)


def is_visit(name: str, number: int) -> bool:
    """Tells if a number of a key belongs to a burst. Keys begin their bursts one after the other."""
    return (number + int(name[1:])) % (BURST + PAUSE) < BURST


def _number_of(name: str, windowed: Windowed[str]) -> str:
    return f"{name}@{windowed.window.start}-{windowed.window.end}"


def _named(windowed: Windowed[str], count: int) -> tuple[str, int]:
    return _number_of(windowed.key, windowed), count


def pair(left: int | None, right: int | None) -> str:
    """Returns the result of the outer join."""
    return f"{'-' if left is None else left} {'-' if right is None else right}"


def topology() -> Topology:
    """Returns the program."""
    string, long = Serdes.string(), Serdes.long()
    builder = StreamsBuilder()
    events = builder.stream(EVENTS, Consumed.with_(string, long))
    by_key = events.group_by_key(Grouped.with_(string, long))
    by_key.count(Materialized.as_(COUNTS))
    windows = by_key.windowed_by(TimeWindows.of_size_with_no_grace(IN_A_WINDOW * EACH_MS))
    final = windows.count(Materialized.as_("windows").with_retention(_KEPT)).suppress(
        Suppressed.until_window_closes(BufferConfig.unbounded())
    )
    final.to_stream().map(_named).to(WINDOWS_OUT, Produced.with_(string, long))
    fives, sevens = events.filter(lambda _, n: n % 5 == 0), events.filter(lambda _, n: n % 7 == 0)
    fives.outer_join(
        sevens,
        pair,
        JoinWindows.of_time_difference_and_grace(EACH_MS, EACH_MS),
        StreamJoined.with_(string, long, long).with_name("pairs").with_store_name("pairs"),
    ).to(PAIRS_OUT, Produced.with_(string, string))
    visits = events.filter(is_visit).group_by_key(Grouped.with_(string, long))
    kept: Materialized[str, int] = Materialized.as_(VISITS).with_caching_disabled().with_ttl(TTL * EACH_MS)
    visits.count(kept).to_stream().to(VISITS_OUT, Produced.with_(string, long))
    sessions = visits.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(TTL * EACH_MS))
    in_sessions = sessions.count(Materialized.as_("sessions").with_retention(_KEPT))
    in_sessions.to_stream().map(_named).to(SESSIONS_OUT, Produced.with_(string, long))
    rates = builder.table(
        RATES,
        Consumed.with_(string, long),
        Materialized.as_(Stores.persistent_versioned_key_value_store("rates", _KEPT)),
    )
    asked = events.repartition(Repartitioned.with_(string, long).with_name("asked"))
    asked.join(rates, lambda number, rate: f"{number} {rate}").to(RATED_OUT, Produced.with_(string, string))
    return builder.build()


class Timed(Program):
    """``keys`` keys with ``rounds`` numbers each; ``begin_ms``: the time of the first, where a window begins."""

    def __init__(self, rounds: int = ROUNDS, begin_ms: int | None = None, keys: int = KEYS) -> None:
        outputs = (WINDOWS_OUT, PAIRS_OUT, VISITS_OUT, SESSIONS_OUT, RATED_OUT)
        self.topics = dict.fromkeys((EVENTS, RATES, *outputs), PARTITIONS)
        self.rounds = rounds
        self._names = [key(number) for number in range(keys)]
        self.counting_up = COUNTS, self._names
        now_ms = time.time_ns() // 1_000_000 if begin_ms is None else begin_ms
        self._begin_ms = now_ms - now_ms % (IN_A_WINDOW * EACH_MS)

    def topology(self) -> Topology:
        """Returns the topology that the module describes."""
        return topology()

    def round(self, number: int) -> Iterator[Written]:
        """Yields one number of each key, and now and then a rate of each that becomes valid much later."""
        first = 0 if number == 0 else number + RATES_AHEAD
        if number % EACH_RATE == 0:
            for valid_from in range(first, number + RATES_AHEAD + 1, EACH_RATE):
                # Of two records with one time either may be processed first, so a rate begins between two events.
                yield from self._of_each_key(RATES, valid_from // EACH_RATE, self._time(valid_from) - EACH_MS // 2)
        yield from self._of_each_key(EVENTS, number, self._time(number))

    def _of_each_key(self, topic: str, value: int, time_ms: int) -> Iterator[Written]:
        raw = Serdes.long().serialize(value)
        for name in self._names:
            yield Written(topic, name.encode(), raw, time_ms)

    def _time(self, number: int) -> int:
        return self._begin_ms + number * EACH_MS

    def check(self, at_rest: AtRest) -> Iterable[str]:
        """All results against the closed form."""
        once = at_rest.guarantee is Guarantee.EXACTLY
        truth = dict.fromkeys(self._names, self.rounds)
        yield from checks.numbered(_longs(at_rest, EVENTS), truth)
        yield from _amounts("counts: ", at_rest.rows(COUNTS), truth, once)
        yield from self._wrong_windows(list(_longs(at_rest, WINDOWS_OUT)), once)
        sessions = {name: count for name, count in dict(_numbers(at_rest, SESSIONS_OUT)).items() if count is not None}
        counted = sessions if once else self._without_parts(sessions)
        yield from _amounts("sessions: ", counted, dict(self.sessions()), once)
        yield from self._wrong_visits(at_rest, once)
        pairs = Counter((name, text) for name, text in _texts(at_rest, PAIRS_OUT))
        must, may = set(self.pairs(self.rounds - UNCLOSED)), set(self.pairs(self.rounds))
        yield from checks.results("pairs", pairs, must, may, once)
        rated = {(name, f"{number} {number // EACH_RATE}") for name in self._names for number in range(self.rounds)}
        yield from checks.results("rated", Counter(_texts(at_rest, RATED_OUT)), rated, rated, once)

    def _wrong_windows(self, found: list[tuple[str, int]], once: bool) -> Iterator[str]:
        closed = range(0, self.rounds - IN_A_WINDOW, IN_A_WINDOW)
        ends = [(self._time(first), self._time(first + IN_A_WINDOW)) for first in closed]
        truth = {f"{name}@{start}-{end}": IN_A_WINDOW for name in self._names for start, end in ends}
        highest: dict[str, int] = {}
        for name, count in found:
            highest[name] = max(count, highest.get(name, 0))
        yield from _amounts("windows: ", highest, truth, once)
        if once:
            yield from checks.results("windows", Counter(found), set(truth.items()), set(truth.items()), once)

    def _wrong_visits(self, at_rest: AtRest, once: bool) -> Iterator[str]:
        history: dict[str, list[int | None]] = {name: list(self.visits(name)) for name in self._names}
        truth = {name: values[-1] for name, values in history.items() if values and values[-1] is not None}
        rows = at_rest.rows(VISITS)
        yield from _amounts("visits: ", rows, truth, once)
        written: dict[str, list[int | None]] = {name: [] for name in self._names}
        for name, count in _numbers(at_rest, VISITS_OUT):
            written[name].append(count)
        last = {name: values[-1] for name, values in written.items() if values and values[-1] is not None}
        yield from checks.equal("the last visits in the output are not those in the store", last, rows)
        if once:
            yield from checks.equal("visits came otherwise than once", written, history)

    def pairs(self, closed: int) -> Iterator[tuple[str, str]]:
        """Results of the outer join: each pair, and of numbers below ``closed`` also those that have no other."""
        fives, sevens = range(0, self.rounds, 5), range(0, self.rounds, 7)
        found = [(five, seven) for five in fives for seven in (five - 1, five, five + 1) if seven in sevens]
        paired_fives, paired_sevens = {five for five, _ in found}, {seven for _, seven in found}
        texts = [pair(five, seven) for five, seven in found]
        texts += [pair(five, None) for five in fives if five < closed and five not in paired_fives]
        texts += [pair(None, seven) for seven in sevens if seven < closed and seven not in paired_sevens]
        return ((name, text) for name in self._names for text in texts)

    def sessions(self) -> Iterator[tuple[str, int]]:
        """The bursts of each key as sessions, with the numbers of records in them."""
        for name in self._names:
            for burst in self._bursts(name):
                yield f"{name}@{self._time(burst[0])}-{self._time(burst[-1])}", len(burst)

    def _without_parts(self, found: Mapping[str, int]) -> dict[str, int]:
        """Leaves out what lies within a burst: at least once, a crash may lose the deletion of the result of a session
        that was merged (docs/RELIABILITY.md, "What at least once means for state")."""
        spans = {name: [(self._time(it[0]), self._time(it[-1])) for it in self._bursts(name)] for name in self._names}

        def is_part(window: str) -> bool:
            name, _, times = window.partition("@")
            begin, end = map(int, times.split("-"))
            return any(first <= begin and end <= last and (begin, end) != (first, last) for first, last in spans[name])

        return {window: count for window, count in found.items() if not is_part(window)}

    def visits(self, name: str) -> Iterator[int | None]:
        """The updates of a key's row: it counts each burst, and expires in the pause after it."""
        for burst in self._bursts(name):
            yield from range(1, len(burst) + 1)
            if burst[-1] + TTL < self.rounds:
                yield None

    def _bursts(self, name: str) -> Iterator[list[int]]:
        numbers = [number for number in range(self.rounds) if is_visit(name, number)]
        begins = [place for place, number in enumerate(numbers) if number - 1 not in numbers[place - 1 : place]]
        for begin, end in zip(begins, [*begins[1:], len(numbers)], strict=True):
            yield numbers[begin:end]


def _amounts(where: str, found: Mapping[str, int], truth: Mapping[str, int], once: bool) -> Iterator[str]:
    yield from checks.counted(found, truth, where)
    if once:
        yield from checks.equal(f"{where}otherwise than once", found, truth)


def _numbers(at_rest: AtRest, topic: str) -> Iterator[tuple[str, int | None]]:
    long = Serdes.long()
    for name, value in at_rest.read(topic):
        yield name.decode(), None if value is None else long.deserialize(value)


def _longs(at_rest: AtRest, topic: str) -> Iterator[tuple[str, int]]:
    return ((name, number) for name, number in _numbers(at_rest, topic) if number is not None)


def _texts(at_rest: AtRest, topic: str) -> Iterator[tuple[str, str]]:
    return ((name.decode(), value.decode()) for name, value in at_rest.read(topic) if value is not None)


timed = Timed()
