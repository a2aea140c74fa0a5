"""A join by foreign key: each order with the customer that it names. A change of an order or of a customer updates the
results.

Topics: ``orders`` (order → order), ``customers`` (customer → customer), ``orders-of-customers`` (order → line). If an
order is deleted, or names a customer that does not exist, its result is deleted, too.
"""

from __future__ import annotations

import os

import msgspec

import penstock as ps


class Order(msgspec.Struct, frozen=True):
    """An order, under its number."""

    customer: str
    items: int


class Customer(msgspec.Struct, frozen=True):
    """A customer, under its number."""

    name: str
    city: str


class OrderLine(msgspec.Struct, frozen=True):
    """The data of an order and its customer that a shipment needs."""

    name: str
    city: str
    items: int


strings, lines = ps.Serdes.string(), ps.Serdes.json(OrderLine)
builder = ps.StreamsBuilder()
orders = builder.table("orders", ps.Consumed.with_(strings, ps.Serdes.json(Order)))
customers = builder.table("customers", ps.Consumed.with_(strings, ps.Serdes.json(Customer)))
(
    orders.join(
        customers,
        lambda order: order.customer,
        lambda order, customer: OrderLine(customer.name, customer.city, order.items),
        materialized=ps.Materialized.as_("orders-of-customers").with_value_serde(lines),
    )
    .to_stream()
    .to("orders-of-customers", ps.Produced.with_(strings, lines))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "orders-of-customers",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    },
)

if __name__ == "__main__":
    ps.run(app)
