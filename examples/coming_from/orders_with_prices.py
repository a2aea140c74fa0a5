"""Multiplies each order by the price that its product has at that moment."""

import penstock as ps

text, number = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()
prices = builder.table("prices", ps.Consumed.with_(text, number), ps.Materialized.as_("prices"))
(
    builder.stream("orders", ps.Consumed.with_(text, number))
    .join(prices, lambda amount, price: amount * price)
    .to("totals", ps.Produced.with_(text, number))
)
topology = builder.build()
