"""Counts how often each identifier occurs in topic ``lines``, and writes the counts to topic ``word-counts``.

``penstock topic create lines word-counts --partitions 4`` makes both topics, ``penstock topic send lines README.md``
fills one. ``python examples/word_count.py`` runs it, and so does ``penstock run examples.word_count:app``.
"""

from __future__ import annotations

import os
import re

import penstock as ps

IDENTIFIER = re.compile(r"[^\W\d]\w*")


def identifiers(line: str) -> list[str]:
    """Every identifier of ``line``, in order, as often as it occurs."""
    return IDENTIFIER.findall(line)


builder = ps.StreamsBuilder()
(
    builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
    .flat_map_values(identifiers)
    .group_by(lambda word: word, ps.Grouped.with_(ps.Serdes.string(), ps.Serdes.string()))
    .count(ps.Materialized.as_("counts"))
    .to_stream()
    .to("word-counts", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long()))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "word-count",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    },
)

if __name__ == "__main__":
    ps.run(app)
