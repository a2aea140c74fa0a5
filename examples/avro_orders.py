"""Avro with a schema registry: the sums of customers' orders, in topics that Java programs can read and write.

Topics: ``orders`` (customer → Order in Avro), ``sums`` (customer → Sum in Avro). The schemas are made from the classes.
Those of ``sums`` and of the changelog are registered when the tasks begin. ``penstock schema check
examples.avro_orders:app`` asks the registry before a deploy if it accepts them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import penstock as ps


@dataclass(frozen=True)
class Order:
    """An order. ``voucher`` came later: it has a default, so that older records can still be read."""

    item: str
    cents: int
    voucher: str | None = None


@dataclass(frozen=True)
class Sum:
    """The orders of a customer until now."""

    orders: int = 0
    cents: int = 0


def add(customer: str, order: Order, before: Sum) -> Sum:
    """Returns the sum with another order."""
    return Sum(before.orders + 1, before.cents + order.cents)


strings, orders, sums = ps.Serdes.string(), ps.Serdes.avro(Order), ps.Serdes.avro(Sum)
builder = ps.StreamsBuilder()
(
    builder.stream("orders", ps.Consumed.with_(strings, orders))
    .group_by_key()
    .aggregate(Sum, add, ps.Materialized.as_("sums").with_value_serde(sums))
    .to_stream()
    .to("sums", ps.Produced.with_(strings, sums))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "avro-orders",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
        "schema.registry.url": os.environ.get("PENSTOCK_SCHEMA_REGISTRY_URL", "http://127.0.0.1:8081"),
    },
)

if __name__ == "__main__":
    ps.run(app)
