"""Averages the temperature of each sensor per minute; one result for each minute, ten seconds after its end."""

from datetime import timedelta
from typing import NamedTuple

import penstock as ps


class Mean(NamedTuple):
    """The sum and the number of readings so far."""

    total: float = 0.0
    number: int = 0


text, number = ps.Serdes.string(), ps.Serdes.double()
builder = ps.StreamsBuilder()
(
    builder.stream("temperatures", ps.Consumed.with_(text, number))
    .group_by_key()
    .windowed_by(ps.TimeWindows.of_size_and_grace(timedelta(minutes=1), timedelta(seconds=10)))
    .emit_strategy(ps.EmitStrategy.on_window_close())
    .aggregate(
        Mean,
        lambda _, reading, mean: Mean(mean.total + reading, mean.number + 1),
        ps.Materialized.as_("means").with_value_serde(ps.Serdes.json(Mean)),
    )
    .to_stream(lambda windowed, _: windowed.key)
    .map_values(lambda mean: mean.total / mean.number)
    .to("means", ps.Produced.with_(text, number))
)
topology = builder.build()
