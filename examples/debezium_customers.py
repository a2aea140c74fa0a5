"""A change topic of Debezium as a table: the customers of a database, counted per city.

Topics: ``shop.public.customers`` (Debezium's JSON), ``customers-per-city`` (city → number). Have the connector leave
schemas out of the records: ``key.converter.schemas.enable=false``, ``value.converter.schemas.enable=false``. Debezium
writes an envelope with ``before``, ``after`` and ``op`` for each change of a row, and after a deletion a record without
a value. The table keeps ``after``. A deletion has none, so it deletes the row; the record that follows it does nothing.
"""

from __future__ import annotations

import os
from typing import cast

import msgspec

import penstock as ps


class Key(msgspec.Struct, frozen=True):
    """The primary key of a row."""

    id: int


class Customer(msgspec.Struct, frozen=True):
    """A row. Columns that the program does not need are left out of the type, and are ignored."""

    id: int
    name: str
    city: str


class Change(msgspec.Struct, frozen=True):
    """Debezium's envelope. ``op``: c (created), u (updated), d (deleted), r (read by a first snapshot)."""

    op: str
    after: Customer | None = None


def row(change: Change | None) -> Customer:
    """Returns the row after ``change``, or None, which deletes it."""
    # As in Kafka Streams, any value may be null, and types do not say so.
    return cast("Customer", change.after if change is not None else None)


keys, rows = ps.Serdes.json(Key), ps.Serdes.json(Customer)
builder = ps.StreamsBuilder()
customers = (
    builder.stream("shop.public.customers", ps.Consumed.with_(keys, ps.Serdes.json(Change)))
    .map_values(row)
    .to_table(ps.Materialized.as_("customers").with_key_serde(keys).with_value_serde(rows))
)
(
    customers.group_by(lambda key, customer: (customer.city, customer), ps.Grouped.with_(ps.Serdes.string(), rows))
    .count(ps.Materialized.as_("customers-per-city"))
    .to_stream()
    .to("customers-per-city", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long()))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "debezium-customers",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    },
)

if __name__ == "__main__":
    ps.run(app)
