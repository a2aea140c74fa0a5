"""A model scores transfers in batches, because a batch of 256 takes it little longer than a single transfer.

Topics: ``transfers-to-score`` (account → transfer), ``scores`` (account → scored transfer). The model here is a few
lines of arithmetic over a whole batch; ``model.predict(values)`` of scikit-learn or PyTorch has the same form, and so
has the method of a Ray actor that holds a GPU: ``map_batch(scorer.score, …)``.
"""

from __future__ import annotations

import os

import msgspec

import penstock as ps


class Transfer(msgspec.Struct, frozen=True):
    """An amount in cents, and the hour of the day."""

    cents: int
    hour: int


class Scored(msgspec.Struct, frozen=True):
    """A transfer with its risk, from 0 to 1."""

    cents: int
    risk: float


def score(batch: list[Transfer]) -> list[Scored]:
    """Returns the risks of a batch: large amounts, and amounts at night."""
    largest = max(100_000, *(transfer.cents for transfer in batch))
    night = [0.5 if transfer.hour < 6 else 0.0 for transfer in batch]
    risks = [min(1.0, 0.5 * each.cents / largest + at_night) for each, at_night in zip(batch, night, strict=True)]
    return [Scored(each.cents, round(risk, 2)) for each, risk in zip(batch, risks, strict=True)]


strings, transfers, scores = ps.Serdes.string(), ps.Serdes.json(Transfer), ps.Serdes.json(Scored)
builder = ps.StreamsBuilder()
(
    builder.stream("transfers-to-score", ps.Consumed.with_(strings, transfers))
    .map_batch(score, max_records=256, max_wait_ms=20)
    .to("scores", ps.Produced.with_(strings, scores))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "scored-in-batches",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    },
)
