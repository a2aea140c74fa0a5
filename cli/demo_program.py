"""The demo's program: that of ``examples/word_count.py``, here because an installed penstock comes without examples."""

from __future__ import annotations

import re

import penstock as ps

_IDENTIFIER = re.compile(r"[^\W\d]\w*")


def identifiers(line: str) -> list[str]:
    """Every identifier of ``line``, in order, as often as it occurs."""
    return _IDENTIFIER.findall(line)


def topology() -> ps.Topology:
    """Counts how often each identifier occurs in topic ``lines``, and writes the counts to ``word-counts``."""
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
