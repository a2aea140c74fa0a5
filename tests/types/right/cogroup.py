"""Cogroup: each stream's aggregator sees its own values and the aggregate that all share."""

from __future__ import annotations

from typing import assert_type

import penstock as ps

string, long, double = ps.Serdes.string(), ps.Serdes.long(), ps.Serdes.double()
builder = ps.StreamsBuilder()
clicks = builder.stream("clicks", ps.Consumed.with_(string, string)).group_by_key()
orders = builder.stream("orders", ps.Consumed.with_(string, long)).group_by_key()


def click(user: str, page: str, seen: list[str]) -> list[str]:
    """A new list."""
    return [*seen, page]


together = clicks.cogroup(click)
assert_type(together, ps.CogroupedKStream[str, list[str]])
both = together.cogroup(orders, lambda user, amount, seen: [*seen, f"{user} {amount + 1}"])
assert_type(both, ps.CogroupedKStream[str, list[str]])
assert_type(both.aggregate(list), ps.KTable[str, list[str]])
assert_type(both.aggregate(list, ps.Materialized.as_("journeys"), named="all"), ps.KTable[str, list[str]])

totals: ps.CogroupedKStream[str, float] = clicks.cogroup(lambda user, page, total: total + len(page) / len(user))
totals.cogroup(orders, lambda user, amount, total: total + amount)
assert_type(totals.aggregate(lambda: 0.0, ps.Materialized.with_(string, double)), ps.KTable[str, float])

per_minute = both.windowed_by(ps.TimeWindows.of_size_with_no_grace(60_000))
assert_type(per_minute, ps.TimeWindowedCogroupedKStream[str, list[str]])
assert_type(per_minute.aggregate(list, ps.Materialized.as_("by-minute")), ps.KTable[ps.Windowed[str], list[str]])
sliding = both.windowed_by(ps.SlidingWindows.of_time_difference_with_no_grace(60_000))
assert_type(sliding.aggregate(list), ps.KTable[ps.Windowed[str], list[str]])

visits = both.windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(60_000))
assert_type(visits, ps.SessionWindowedCogroupedKStream[str, list[str]])
assert_type(
    visits.aggregate(list, lambda user, one, other: one + other, ps.Materialized.as_("visits")),
    ps.KTable[ps.Windowed[str], list[str]],
)
assert_type(
    visits.aggregate(list, lambda user, one, other: one + other).to_stream(lambda key, seen: key.key),
    ps.KStream[str, list[str]],
)
