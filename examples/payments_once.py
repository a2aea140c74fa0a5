"""Deduplication: payments that a client sends again, because it saw no answer, are taken once.

Topics: ``payments`` (account → payment), ``payments-once`` (account → payment). Two payments of one account with the
same ``request`` within an hour count as one.
"""

from __future__ import annotations

import os
from datetime import timedelta

import msgspec

import penstock as ps


class Payment(msgspec.Struct, frozen=True):
    """A payment, with the id that the client gave its request."""

    request: str
    cents: int


strings, payments = ps.Serdes.string(), ps.Serdes.json(Payment)
seen: ps.Deduplicated[str, Payment, str] = ps.Deduplicated.as_("requests-seen").with_id_serde(strings)
builder = ps.StreamsBuilder()
(
    builder.stream("payments", ps.Consumed.with_(strings, payments))
    .deduplicate(timedelta(hours=1), lambda payment: payment.request, seen)
    .to("payments-once", ps.Produced.with_(strings, payments))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "payments-once",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    },
)

if __name__ == "__main__":
    ps.run(app)
