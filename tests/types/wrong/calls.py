"""Faults in calls out: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

builder = ps.StreamsBuilder()
lines = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
amounts = builder.stream("amounts", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))


async def length(value: str) -> int:
    return len(value)


async def split(record: ps.Record[str, str]) -> list[ps.Record[int, str]]:
    return [record.with_key(len(record.key))]


amounts.map_values_async(length)  # error
amounts.process_async(split)  # error
lines.map_values_async(length, ps.Retry())  # error
lines.map_values_async(length).to("lengths", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.string()))  # error
ps.Calls(100)  # error
ps.Calls(retry=3)  # error
