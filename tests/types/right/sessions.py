"""Sessions: the arguments of reducers, aggregators and mergers, and the windowed keys of their results."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

import penstock as ps

string, long = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()
clicks = builder.stream("clicks", ps.Consumed.with_(string, long))
gap = ps.SessionWindows.of_inactivity_gap_and_grace(timedelta(minutes=5), 1_000)
visits = clicks.group_by_key().windowed_by(gap)

assert_type(visits, ps.SessionWindowedKStream[str, int])
assert_type(visits.emit_strategy(ps.EmitStrategy.on_window_update()), ps.SessionWindowedKStream[str, int])
assert_type(visits.count(), ps.KTable[ps.Windowed[str], int])
assert_type(visits.count(ps.Materialized.as_("visits"), named="counted"), ps.KTable[ps.Windowed[str], int])
assert_type(visits.reduce(lambda sum, value: sum + value), ps.KTable[ps.Windowed[str], int])
assert_type(visits.reduce(max, ps.Materialized.with_(string, long)), ps.KTable[ps.Windowed[str], int])


def together(user: str, one: float, other: float) -> float:
    """One session of two. mypy takes an aggregate for Any where a lambda of the merger's combines both."""
    return one + other


assert_type(
    visits.aggregate(lambda: 0.5, lambda key, value, sum: sum + value / len(key), together),
    ps.KTable[ps.Windowed[str], float],
)


def pages(user: str, page: int, seen: list[int]) -> list[int]:
    """A new list."""
    return [*seen, page]


def both(user: str, one: list[int], other: list[int]) -> list[int]:
    """A new list."""
    return one + other


seen = visits.aggregate(list, pages, both, ps.Materialized.as_("pages"))
assert_type(seen, ps.KTable[ps.Windowed[str], list[int]])
assert_type(
    seen.map_values(lambda key, pages: (key.key, key.window.end, pages)),
    ps.KTable[ps.Windowed[str], tuple[str, int, list[int]]],
)
assert_type(seen.to_stream(lambda key, pages: key.key), ps.KStream[str, list[int]])
assert_type(seen.to_stream().map_values(lambda pages: len(pages)), ps.KStream[ps.Windowed[str], int])
final = seen.suppress(ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded()))
assert_type(final, ps.KTable[ps.Windowed[str], list[int]])

serde = ps.WindowedSerdes.session_windowed_serde_from(string)
assert_type(serde, ps.Serde[ps.Windowed[str]])
visits.count().to_stream().to("visits", ps.Produced.with_(serde, long))
assert_type(builder.stream("visits", ps.Consumed.with_(serde, long)), ps.KStream[ps.Windowed[str], int])
