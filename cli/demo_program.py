"""The demo's program: a copy of ``examples/word_count.py``, because an installed penstock has no examples."""

from __future__ import annotations

import re

import penstock as ps

_IDENTIFIER = re.compile(r"[^\W\d]\w*")


def identifiers(line: str) -> list[str]:
    """Returns every identifier of ``line``, in order, with repetitions."""
    return _IDENTIFIER.findall(line)


def topology() -> ps.Topology:
    """Returns the topology that counts each identifier in topic ``lines``, and writes the counts to ``word-counts``."""
    builder = ps.StreamsBuilder()
    (
        builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
        .flat_map_values(identifiers)
        .group_by(lambda _, word: word, ps.Grouped.with_(ps.Serdes.string(), ps.Serdes.string()))
        .count(ps.Materialized.as_("counts"))
        .to_stream()
        .to("word-counts", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long()))
    )
    return builder.build()
