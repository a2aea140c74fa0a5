"""Faults in windows: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

builder = ps.StreamsBuilder()
clicks = builder.stream("clicks", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))
per_minute = clicks.group_by_key().windowed_by(ps.TimeWindows.of_size_with_no_grace(60_000))

clicks.group_by_key().windowed_by(60_000)  # error
clicks.group_by_key().windowed_by(ps.Window(0, 10))  # error
per_minute.emit_strategy("close")  # error
per_minute.count().to_stream(lambda key, count: key.upper())  # error
per_minute.count().map_values(lambda count: count.upper())  # error
per_minute.count(ps.Materialized.with_(ps.Serdes.long(), ps.Serdes.long()))  # error
per_minute.reduce(lambda aggregate, value: str(aggregate))  # error
per_minute.aggregate(lambda: 0, lambda key, value, sum: sum + key.nothing)  # error
per_minute.aggregate(lambda: 0, lambda key, sum: sum)  # error
per_minute.count().to_stream().to("out", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long()))  # error
ps.TimeWindows.of_size_with_no_grace("1 minute")  # error
