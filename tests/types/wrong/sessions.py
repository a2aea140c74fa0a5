"""Faults in sessions: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

string, long = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()
clicks = builder.stream("clicks", ps.Consumed.with_(string, long))
visits = clicks.group_by_key().windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(5_000))


def merged(user: str, one: int, other: int) -> int:
    """One session of two."""
    return one + other


ps.SessionWindows.of_inactivity_gap_with_no_grace("5 min")  # error
ps.SessionWindows.of_inactivity_gap_and_grace(5)  # error
visits.emit_strategy("close")  # error
visits.count(ps.Materialized.with_(string, string))  # error
visits.count().map_values(lambda count: count.upper())  # error
visits.count().to_stream(lambda key, count: key.upper())  # error
visits.count().to_stream(lambda key, count: key.window.length)  # error
visits.count().to_stream().to("out", ps.Produced.with_(string, long))  # error
visits.reduce(lambda sum, value: sum.upper())  # error
visits.reduce(lambda sum, value: str(sum))  # error
visits.aggregate(lambda: 0, lambda key, value, sum: sum + value)  # error
visits.aggregate(lambda: 0, lambda key, value, sum: sum + key.nothing, merged)  # error
visits.aggregate(lambda: 0, lambda key, value, sum: sum + value.upper(), merged)  # error
visits.aggregate(lambda: 0, lambda key, value, sum: sum + value, lambda one, other: one + other)  # error
visits.aggregate(lambda: 0, lambda key, value, sum: sum + value, lambda key, one, other: one + key.nothing)  # error
visits.aggregate(list[int], lambda key, value, seen: [*seen, value], merged)  # error
visits.aggregate(lambda: 0, lambda key, value, sum: sum, merged, ps.Joined.as_("x"))  # error
visits.aggregate(lambda: 0, lambda key, value, sum: sum, merged).map_values(lambda sum: sum.upper())  # error
ps.WindowedSerdes.session_windowed_serde_from("string")  # error
ps.WindowedSerdes.time_windowed_serde_from(string)  # error
