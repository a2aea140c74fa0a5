"""Faults in groups, aggregates, tables and joins: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

builder = ps.StreamsBuilder()
lines = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
amounts = builder.stream("amounts", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))
users = builder.table("users", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))

lines.group_by(lambda key, value: value / 2)  # error
lines.group_by(lambda key, value: value, ps.Grouped.with_(ps.Serdes.long(), ps.Serdes.string()))  # error
lines.group_by_key(ps.Grouped.with_(ps.Serdes.string(), ps.Serdes.long()))  # error
lines.group_by_key().count(ps.Materialized.with_(ps.Serdes.string(), ps.Serdes.string()))  # error
lines.group_by_key().count(ps.Materialized.as_("counts").with_value_serde(ps.Serdes.string()))  # error
lines.group_by_key().count().filter(lambda key, count: count.upper() == key)  # error

amounts.group_by_key().reduce(lambda aggregate, value: str(aggregate))  # error
amounts.group_by_key().reduce(lambda aggregate, value: aggregate.upper())  # error
amounts.group_by_key().reduce(max, ps.Materialized.as_("largest").with_value_serde(ps.Serdes.string()))  # error

totals = ps.Materialized.with_(ps.Serdes.string(), ps.Serdes.long())
grouped = amounts.group_by_key()
grouped.aggregate(lambda: 0, lambda key, value, total: total + value.upper(), ps.Materialized.as_("totals"))  # error
grouped.aggregate(lambda: 0, lambda key, value, total: total + key.nothing)  # error
grouped.aggregate(lambda: "", lambda key, value, total: total, totals)  # error
grouped.aggregate(lambda: 0, lambda key, value, total: f"{total}", totals)  # error
grouped.aggregate(lambda: 0, lambda key, total: total)  # error
grouped.aggregate(0, lambda key, value, total: total)  # error
grouped.aggregate(lambda: 0, lambda key, value, total: total + value, totals).map_values(lambda it: it.upper())  # error

users.map_values(lambda user: user.name)  # error
users.filter(lambda key, user: user > "x")  # error
users.filter(lambda user: user > "x")  # error
users.to_stream(lambda key, user: key + 1)  # error
users.to_stream().map_values(lambda user: user.strip())  # error

lines.join(users, lambda line, user: line + user)  # error
lines.join(users, lambda line, user: user.name)  # error
lines.left_join(users, lambda line, user: user + 1)  # error
other_keys = ps.Joined.with_(ps.Serdes.long(), ps.Serdes.string(), ps.Serdes.long())
lines.join(users, lambda line, user: line, other_keys)  # error
lines.select_key(lambda key, line: len(line)).join(users, lambda line, user: line)  # error
lines.join(amounts, lambda line, amount: line)  # error
lines.join(users, lambda line, user: user / 2).map_values(lambda half: half.upper())  # error

regions = builder.global_table("regions", ps.Consumed.with_(ps.Serdes.long(), ps.Serdes.double()))
lines.join(regions, lambda line: len(line), lambda line, region: region.upper())  # error
lines.join(regions, lambda line: line, lambda line, region: region)  # error
lines.join(regions, lambda line: len(line))  # error
lines.join(regions, lambda line, amount: line + 1, lambda line, region: region)  # error
lines.left_join(regions, lambda line: len(line), lambda line, region: region + 1)  # error
lines.join(regions, lambda line: len(line), lambda line, region: region).map_values(lambda it: it.upper())  # error
regions.to_stream()  # error
other_values = ps.StreamJoined.with_(ps.Serdes.string(), ps.Serdes.long(), ps.Serdes.long())
near = ps.JoinWindows.of_time_difference_with_no_grace(200)
lines.join(amounts, lambda line, amount: line + amount, near)  # error
lines.left_join(amounts, lambda line, amount: amount + 1, near)  # error
lines.outer_join(amounts, lambda line, amount: line.upper(), near)  # error
lines.outer_join(users, lambda line, user: line, near)  # error
lines.join(amounts, lambda line, amount: line, ps.Joined.as_("joined"))  # error
lines.join(users, lambda line, user: line, near)  # error
lines.join(amounts, lambda line, amount: line, near, other_values)  # error
lines.select_key(lambda key, line: len(line)).join(amounts, lambda line, amount: line, near)  # error
lines.join(amounts, lambda line, amount: amount, near).map_values(lambda amount: amount.upper())  # error
names = builder.table("names", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
sizes = builder.table("sizes", ps.Consumed.with_(ps.Serdes.long(), ps.Serdes.string()))
names.outer_join(users, lambda name, user: name.upper())  # error
names.outer_join(users, lambda name, user: name or user + 1)  # error
names.outer_join(sizes, lambda name, size: size)  # error

by_name = names.group_by(lambda key, name: (name, 1))
names.group_by(lambda key, name: name.nothing)  # error
names.group_by(lambda key, name: (name, 1), ps.Grouped.with_(ps.Serdes.string(), ps.Serdes.string()))  # error
by_name.count(ps.Materialized.with_(ps.Serdes.string(), ps.Serdes.string()))  # error
by_name.reduce(lambda all, one: all + one, lambda all, one: all.upper())  # error
by_name.aggregate(str, lambda name, one, all: all + name, lambda name, all: all)  # error


class Longer(ps.ValueTransformerWithKey[str, str, str]):
    """A transformer of texts."""


users.transform_values(Longer)  # error
names.transform_values(Longer())  # error
