"""Sessions: the clicks of each visitor, summed per visit and written once, when the visit has ended.

Topics: ``clicks`` (visitor → page), ``visits`` (visitor → visit). A visit ends when no click has come for 30 minutes.
A click may be five minutes late. ``suppress`` holds each visit back until no click can change it any more.
"""

from __future__ import annotations

import os
from datetime import timedelta

import msgspec

import penstock as ps


class Visit(msgspec.Struct, frozen=True):
    """The clicks of one visit, in the order of their arrival."""

    pages: tuple[str, ...] = ()


class FinishedVisit(msgspec.Struct, frozen=True):
    """A visit that has ended."""

    pages: tuple[str, ...]
    seconds: int


strings, visits = ps.Serdes.string(), ps.Serdes.json(Visit)
builder = ps.StreamsBuilder()
(
    builder.stream("clicks", ps.Consumed.with_(strings, strings))
    .group_by_key()
    .windowed_by(ps.SessionWindows.of_inactivity_gap_and_grace(timedelta(minutes=30), timedelta(minutes=5)))
    .aggregate(
        Visit,
        lambda visitor, page, visit: Visit((*visit.pages, page)),
        lambda visitor, one, other: Visit(one.pages + other.pages),
        ps.Materialized.as_("open-visits").with_value_serde(visits),
    )
    .suppress(ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded()))
    .to_stream()
    .map(lambda key, visit: (key.key, FinishedVisit(visit.pages, (key.window.end - key.window.start) // 1000)))
    .to("visits", ps.Produced.with_(strings, ps.Serdes.json(FinishedVisit)))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "visits",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    },
)

if __name__ == "__main__":
    ps.run(app)
