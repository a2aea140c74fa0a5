"""Ticks joined with a table of limits: an alert for each price that leaves its range.

Topics: ``ticks`` (symbol → tick), ``limits`` (symbol → limit), ``alerts`` (symbol → alert). A new limit applies to the
ticks that follow it. A tick of a symbol without a limit gives no alert.
"""

from __future__ import annotations

import os

import msgspec

import penstock as ps


class Tick(msgspec.Struct, frozen=True):
    """One trade."""

    price: float
    shares: int


class Limit(msgspec.Struct, frozen=True):
    """The range in which a price gives no alert, both ends included."""

    low: float
    high: float


class Alert(msgspec.Struct, frozen=True):
    """A price outside its range. ``beyond`` is the end of the range that it has passed."""

    price: float
    beyond: float


def outside(tick: Tick, limit: Limit) -> Alert | None:
    """Returns the alert for ``tick``, or None if its price is within ``limit``."""
    if limit.low <= tick.price <= limit.high:
        return None
    return Alert(tick.price, limit.low if tick.price < limit.low else limit.high)


symbols = ps.Serdes.string()
builder = ps.StreamsBuilder()
limits = builder.table("limits", ps.Consumed.with_(symbols, ps.Serdes.json(Limit)), ps.Materialized.as_("limits"))
(
    builder.stream("ticks", ps.Consumed.with_(symbols, ps.Serdes.json(Tick)))
    .join(limits, outside)
    .filter(lambda alert: alert is not None)
    .to("alerts", ps.Produced.with_(symbols, ps.Serdes.json(Alert)))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "ticks",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    },
)

if __name__ == "__main__":
    ps.run(app)
