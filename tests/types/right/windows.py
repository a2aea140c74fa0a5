"""Windows: the keys of a windowed table are windowed, and functions that see them know what is in them."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

import penstock as ps

builder = ps.StreamsBuilder()
clicks = builder.stream("clicks", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))
per_minute = clicks.group_by_key().windowed_by(ps.TimeWindows.of_size_and_grace(timedelta(minutes=1), 5_000))

assert_type(per_minute, ps.TimeWindowedKStream[str, int])
assert_type(per_minute.emit_strategy(ps.EmitStrategy.on_window_close()), ps.TimeWindowedKStream[str, int])
assert_type(per_minute.count(), ps.KTable[ps.Windowed[str], int])
assert_type(per_minute.count().to_stream(), ps.KStream[ps.Windowed[str], int])
assert_type(per_minute.count().to_stream(lambda key, count: key.key.upper()), ps.KStream[str, int])
assert_type(per_minute.count().to_stream(lambda key, count: key.window.start), ps.KStream[int, int])
assert_type(per_minute.count(ps.Materialized.as_("counts").with_retention(60_000)), ps.KTable[ps.Windowed[str], int])
assert_type(per_minute.reduce(lambda sum, value: sum + value), ps.KTable[ps.Windowed[str], int])
assert_type(
    per_minute.aggregate(lambda: 0.5, lambda key, value, sum: sum / value),
    ps.KTable[ps.Windowed[str], float],
)

hopping = ps.TimeWindows.of_size_with_no_grace(10).advance_by(5)
assert_type(clicks.group_by_key().windowed_by(hopping).count(), ps.KTable[ps.Windowed[str], int])
sliding = ps.SlidingWindows.of_time_difference_with_no_grace(10)
assert_type(clicks.group_by_key().windowed_by(sliding).count(), ps.KTable[ps.Windowed[str], int])
ever = ps.UnlimitedWindows.of().start_on(10)
assert_type(clicks.group_by_key().windowed_by(ever).count(), ps.KTable[ps.Windowed[str], int])

serde = ps.WindowedSerdes.time_windowed_serde_from(ps.Serdes.string(), 60_000)
assert_type(serde, ps.Serde[ps.Windowed[str]])
per_minute.count().to_stream().to("counts", ps.Produced.with_(serde, ps.Serdes.long()))
assert_type(builder.stream("counts", ps.Consumed.with_(serde, ps.Serdes.long())), ps.KStream[ps.Windowed[str], int])
