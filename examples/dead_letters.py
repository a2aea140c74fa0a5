"""Dead letters: orders that cannot be decoded or processed go to a topic of their own; the others are summed.

Topics: ``orders`` (customer → order, as JSON), ``revenue`` (customer → cents), ``dead-letters`` (as they were read). An
order that is not JSON cannot be decoded. For an order in an unknown currency ``cents`` raises. ``penstock dlq list
dead-letters`` counts them by error. When the program knows the currency, ``penstock dlq replay dead-letters`` writes
them to ``orders`` again.
"""

from __future__ import annotations

import os

import msgspec

import penstock as ps


class Order(msgspec.Struct, frozen=True):
    """An order, with the amount in its currency."""

    amount: int
    currency: str


RATES = {"EUR": 100, "USD": 91}
"""Euro cents for each unit."""


def cents(order: Order) -> int:
    """The amount in euro cents. Raises KeyError for an unknown currency."""
    return order.amount * RATES[order.currency]


strings, longs = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()
(
    builder.stream("orders", ps.Consumed.with_(strings, ps.Serdes.json(Order)))
    .map_values(cents)
    .group_by_key(ps.Grouped.with_(strings, longs))
    .reduce(lambda sum, more: sum + more, ps.Materialized.with_(strings, longs))
    .to_stream()
    .to("revenue", ps.Produced.with_(strings, longs))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "dead-letters",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
        "processing.guarantee": "exactly_once_v2",
        "deserialization.exception.handler": ps.LogAndContinue(),
        "processing.exception.handler": ps.LogAndContinue(),
        "errors.dead.letter.queue.topic.name": "dead-letters",
    },
)

if __name__ == "__main__":
    ps.run(app)
