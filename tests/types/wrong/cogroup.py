"""Faults in cogroup: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

string, long = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()
clicks = builder.stream("clicks", ps.Consumed.with_(string, string)).group_by_key()
orders = builder.stream("orders", ps.Consumed.with_(string, long)).group_by_key()
by_number = builder.stream("numbers", ps.Consumed.with_(long, long)).group_by_key()


def click(user: str, page: str, clicks: int) -> int:
    """One more."""
    return clicks + 1


both = clicks.cogroup(click).cogroup(orders, lambda user, amount, sum: sum + amount)

orders.cogroup(click)  # error
both.cogroup(orders, lambda user, amount, sum: sum + amount.upper())  # error
both.cogroup(orders, lambda user, amount, sum: sum + user.nothing)  # error
both.cogroup(orders, lambda user, amount, sum: sum.upper())  # error
both.cogroup(orders, lambda user, amount, sum: f"{sum}")  # error
both.cogroup(orders, lambda amount, sum: sum)  # error
both.cogroup(by_number, lambda user, amount, sum: sum)  # error
both.cogroup(builder.stream("clicks"), lambda user, amount, sum: sum)  # error
both.aggregate(lambda: "")  # error
both.aggregate(0)  # error
both.aggregate(lambda: 0, ps.Materialized.with_(string, string))  # error
both.aggregate(lambda: 0).map_values(lambda sum: sum.upper())  # error
both.windowed_by(60_000)  # error

per_minute = both.windowed_by(ps.TimeWindows.of_size_with_no_grace(60_000))
per_minute.aggregate(lambda: "")  # error
per_minute.aggregate(lambda: 0).to_stream(lambda key, sum: key.upper())  # error
per_minute.count()  # error
per_minute.emit_strategy(ps.EmitStrategy.on_window_close())  # error

visits = both.windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(60_000))
visits.aggregate(lambda: 0)  # error
visits.aggregate(lambda: 0, lambda user, one, other: f"{one}")  # error
visits.aggregate(lambda: 0, lambda user, one, other: one + user.nothing)  # error
visits.aggregate(lambda: 0, lambda one, other: one + other)  # error
visits.aggregate(lambda: "", lambda user, one, other: one)  # error
