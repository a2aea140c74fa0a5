"""Exactly once, end to end: transfers between accounts. The sum of all balances stays the same, whatever fails.

Topics: ``transfers`` (id → transfer), ``balances`` (account → cents). Each transfer becomes two bookings: one takes the
money, one gives it. They reach their accounts by a repartition topic. Under ``exactly_once_v2`` one transaction has
both bookings and the offset of the transfer. Another has the offsets of the bookings, the balances and their changelog.
So no crash creates money, or loses it. Readers of ``balances`` must set ``isolation.level=read_committed``.
"""

from __future__ import annotations

import os

import msgspec

import penstock as ps


class Transfer(msgspec.Struct, frozen=True):
    """An order to move ``cents`` from one account to another."""

    source: str
    target: str
    cents: int


strings, cents = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()
(
    builder.stream("transfers", ps.Consumed.with_(strings, ps.Serdes.json(Transfer)))
    .flat_map(lambda id, order: [(order.source, -order.cents), (order.target, order.cents)])
    .group_by_key(ps.Grouped.with_(strings, cents).with_name("bookings"))
    .reduce(lambda balance, booking: balance + booking, ps.Materialized.as_("balances"))
    .to_stream()
    .to("balances", ps.Produced.with_(strings, cents))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "transfers",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
        "processing.guarantee": "exactly_once_v2",
    },
)

if __name__ == "__main__":
    ps.run(app)
