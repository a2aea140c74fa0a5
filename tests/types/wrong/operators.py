"""Faults in functions and serdes of streams: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

builder = ps.StreamsBuilder()
lines = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
amounts = builder.stream("amounts", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))

lines.map_values(lambda value: value.no_such_method())  # error
lines.filter(lambda key, value: value > 1)  # error
lines.filter(lambda key, value: key.nothing)  # error
amounts.filter_not(lambda key, value: value.upper() == key)  # error
lines.map(lambda key, value: (key, value + 1))  # error
lines.map(lambda key, value: value)  # error
lines.flat_map(lambda key, value: [(key, value / 2)])  # error
lines.flat_map_values(lambda value: len(value))  # error
lines.select_key(lambda key, value: value["id"])  # error
lines.select_key(lambda value: value["id"])  # error
lines.group_by(lambda value: value.no_such_method())  # error
lines.peek(lambda key, value: print(value - 1))  # error
lines.for_each(lambda: print("none"))  # error
lines.for_each(lambda value: print(value.no_such_method()))  # error
lines.filter(lambda key, value, more: bool(value))  # error
lines.filter(lambda value: value > 1)  # error
amounts.filter_not(lambda value: value.upper() == "A")  # error
lines.peek(lambda value: print(value - 1))  # error
lines.merge(amounts)  # error
lines.split().branch(lambda key, value: value > 1)  # error
lines.split().branch(lambda value: value > 1)  # error
lines.map_values(len).map_values(lambda length: length.upper())  # error

lines.to("out", ps.Produced.with_(ps.Serdes.long(), ps.Serdes.string()))  # error
lines.to("out", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long()))  # error
amounts.map(lambda key, value: (value, key)).to("out", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long()))  # error
lines.map_values(lambda line: line or None).to("out", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long()))  # error
lines.repartition(ps.Repartitioned.with_(ps.Serdes.long(), ps.Serdes.string()))  # error
lines.to(topic=7)  # error

ps.Consumed.with_("string", ps.Serdes.string())  # error
ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string(), offset_reset="newest")  # error
builder.stream("lines", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.string()))  # error
lines.no_such_operator()  # error
ps.NoSuchName()  # error
