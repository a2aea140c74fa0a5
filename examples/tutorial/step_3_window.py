"""Step 3: also counts each word per minute."""

import os
from datetime import timedelta

import penstock as ps

text, number = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()

words = builder.stream("messages", ps.Consumed.with_(text, text)).flat_map_values(str.split)
by_word = words.group_by(lambda word: word, ps.Grouped.with_(text, text).with_name("by-word"))
by_word.count(ps.Materialized.as_("counts")).to_stream().to("word-counts", ps.Produced.with_(text, number))

themes = builder.table("themes", ps.Consumed.with_(text, text), ps.Materialized.as_("themes"))
(
    themes.group_by(lambda word, theme: (theme, word), ps.Grouped.with_(text, text).with_name("by-theme"))
    .count(ps.Materialized.as_("words-per-theme"))
    .to_stream()
    .to("words-per-theme", ps.Produced.with_(text, number))
)

minutes = ps.TimeWindows.of_size_and_grace(timedelta(minutes=1), timedelta(seconds=10))
(
    by_word.windowed_by(minutes)
    .emit_strategy(ps.EmitStrategy.on_window_close())
    .count(ps.Materialized.as_("counts-per-minute"))
    .to_stream(lambda windowed, _: f"{windowed.key} at {windowed.window.start_time():%H:%M}")
    .to("counts-per-minute", ps.Produced.with_(text, number))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "words",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
        "commit.interval.ms": 1000,  # results each second; the default is 30 s
    },
)

if __name__ == "__main__":
    ps.run(app)
