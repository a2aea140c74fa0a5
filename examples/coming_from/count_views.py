"""Counts the views of each page."""

import msgspec

import penstock as ps


class View(msgspec.Struct, frozen=True):
    """One page that a user has looked at."""

    page: str
    user: str


text, views = ps.Serdes.string(), ps.Serdes.json(View)
builder = ps.StreamsBuilder()
(
    builder.stream("views", ps.Consumed.with_(text, views))
    .group_by(lambda _, view: view.page, ps.Grouped.with_(text, views))
    .count(ps.Materialized.as_("views-per-page"))
    .to_stream()
    .to("views-per-page", ps.Produced.with_(text, ps.Serdes.long()))
)

app = ps.KafkaStreams(builder.build(), {"application.id": "views", "bootstrap.servers": "127.0.0.1:9092"})

if __name__ == "__main__":
    ps.run(app)
