"""Groups, aggregates, tables and joins: a function that sees an aggregate, or a table's value, knows its type."""

from __future__ import annotations

from typing import Any, assert_type

import penstock as ps

builder = ps.StreamsBuilder()
lines = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
amounts = builder.stream("amounts", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))
users = builder.table("users", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))

assert_type(lines.group_by_key(), ps.KGroupedStream[str, str])
assert_type(lines.group_by(lambda key, value: len(value)), ps.KGroupedStream[int, str])
assert_type(lines.group_by(lambda key, value: value, ps.Grouped.as_("by-value")), ps.KGroupedStream[str, str])
assert_type(
    amounts.group_by(
        lambda key, value: value % 10 if value > 0 else None,
        ps.Grouped.with_(ps.Serdes.long(), ps.Serdes.long()),
    ),
    ps.KGroupedStream[int, int],
)

# ---- count, reduce, aggregate, with and without a word on the store ----

counts = lines.group_by(lambda key, value: value).count(ps.Materialized.as_("counts"))
assert_type(counts, ps.KTable[str, int])
assert_type(counts.to_stream(), ps.KStream[str, int])
assert_type(counts.to_stream(lambda key, value: value), ps.KStream[int, int])
assert_type(counts.map_values(lambda value: str(value)), ps.KTable[str, str])
assert_type(counts.filter(lambda key, value: value > 1), ps.KTable[str, int])
assert_type(counts.filter(lambda count: count.bit_length() > 1), ps.KTable[str, int])
assert_type(lines.group_by_key().reduce(lambda aggregate, value: aggregate + value), ps.KTable[str, str])
assert_type(
    lines.group_by_key().aggregate(lambda: 0.5, lambda key, value, aggregate: aggregate + len(value)),
    ps.KTable[str, float],
)
assert_type(amounts.group_by_key().reduce(max, ps.Materialized.as_("largest")), ps.KTable[str, int])
assert_type(amounts.group_by_key().reduce(lambda sum, value: sum + value or None), ps.KTable[str, int])

totals = amounts.group_by_key().aggregate(
    lambda: 0,
    lambda key, value, total: total + value,
    ps.Materialized.as_("totals").with_value_serde(ps.Serdes.long()).with_caching_disabled(),
)
assert_type(totals, ps.KTable[str, int])
assert_type(
    amounts.group_by_key().aggregate(lambda: 0.5, lambda key, value, sum: sum / value, ps.Materialized.as_("halves")),
    ps.KTable[str, float],
)


def longest(key: str, line: str, seen: dict[str, int]) -> dict[str, int] | None:
    """None deletes the aggregate."""
    return {**seen, key: len(line)} if line else None


assert_type(
    lines.group_by_key().aggregate(dict, longest, ps.Materialized.as_("longest")), ps.KTable[str, dict[str, int]]
)
assert_type(
    lines.group_by_key().aggregate(
        lambda: 0, lambda key, line, sum: sum + len(line), ps.Materialized.with_(ps.Serdes.string(), ps.Serdes.long())
    ),
    ps.KTable[str, int],
)

# ---- tables ----

assert_type(lines.to_table(), ps.KTable[str, str])
assert_type(lines.to_table(ps.Materialized.as_("latest")), ps.KTable[str, str])
assert_type(builder.table("anything"), ps.KTable[Any, Any])
assert_type(
    builder.table("users", materialized=ps.Materialized.with_(ps.Serdes.string(), ps.Serdes.long())),
    ps.KTable[str, int],
)
assert_type(
    builder.table("users", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()), ps.Materialized.as_("users")),
    ps.KTable[str, int],
)
builder.table("users", materialized=ps.Materialized.as_("users")).to_stream().map_values(lambda value: value.anything)
assert_type(totals.map_values(lambda key, total: f"{key}: {total}", ps.Materialized.as_("texts")), ps.KTable[str, str])
assert_type(totals.filter_not(lambda total: total > 9, ps.Materialized.as_("few")), ps.KTable[str, int])
assert_type(totals.filter_not(lambda key, total: total > 9, ps.Materialized.as_("small")), ps.KTable[str, int])
assert_type(totals.queryable_store_name, str | None)

# ---- joins ----

assert_type(lines.join(users, lambda line, user: line * user), ps.KStream[str, str])
assert_type(lines.join(users, lambda key, line, user: user / 2), ps.KStream[str, float])
assert_type(lines.left_join(users, lambda line, user: user if user is None else user + 1), ps.KStream[str, int | None])
assert_type(
    lines.join(users, lambda line, user: (line, user), ps.Joined.as_("named")), ps.KStream[str, tuple[str, int]]
)
assert_type(
    lines.join(
        users,
        lambda line, user: line[:user],
        ps.Joined.with_(ps.Serdes.string(), ps.Serdes.string(), ps.Serdes.long()),
    ),
    ps.KStream[str, str],
)

amounts = builder.stream("amounts", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))
near = ps.JoinWindows.of_time_difference_and_grace(200, 1000).before(100).after(300)
assert_type(lines.join(amounts, lambda line, amount: line * amount, near), ps.KStream[str, str])
assert_type(lines.join(amounts, lambda key, line, amount: amount / len(key), near), ps.KStream[str, float])
assert_type(
    lines.join(amounts, lambda line, amount: (line, amount), near, ps.StreamJoined.as_("named")),
    ps.KStream[str, tuple[str, int]],
)
assert_type(
    lines.left_join(amounts, lambda line, amount: amount and amount + len(line), windows=near),
    ps.KStream[str, int | None],
)
assert_type(
    lines.outer_join(
        amounts,
        lambda key, line, amount: len(line or key) + (amount or 0),
        near,
        ps.StreamJoined.with_(ps.Serdes.string(), ps.Serdes.string(), ps.Serdes.long()).with_name("named"),
    ),
    ps.KStream[str, int],
)

# ---- joins of tables ----

names = builder.table("names", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
assert_type(names.join(users, lambda name, user: name * user), ps.KTable[str, str])
assert_type(names.left_join(users, lambda name, user: user if user is None else user / 2), ps.KTable[str, float | None])
assert_type(names.outer_join(users, lambda name, user: name or f"{user}", named="all"), ps.KTable[str, str])
assert_type(names.join(users, lambda name, user: len(name) + user, ps.Materialized.as_("sums")), ps.KTable[str, int])

# ---- groups of tables ----

by_size = names.group_by(lambda key, name: (len(name), name))
assert_type(by_size, ps.KGroupedTable[int, str])
assert_type(
    names.group_by(lambda key, name: (name, 1), ps.Grouped.with_(ps.Serdes.string(), ps.Serdes.long())),
    ps.KGroupedTable[str, int],
)
assert_type(by_size.count(ps.Materialized.as_("sizes")), ps.KTable[int, int])
assert_type(by_size.reduce(lambda all, name: all + name, lambda all, name: all.replace(name, "")), ps.KTable[int, str])
assert_type(
    by_size.aggregate(
        lambda: 0.5, lambda size, name, all: all + size * len(name), lambda size, name, all: all - size * len(name)
    ),
    ps.KTable[int, float],
)


class Half(ps.ValueTransformerWithKey[str, int, float]):
    """A transformer that declares its own types."""

    def transform(self, read_only_key: str, value: int | None) -> float | None:
        return None if value is None else value / 2


assert_type(users.transform_values(Half), ps.KTable[str, float])
assert_type(users.transform_values(Half, "seen", materialized=ps.Materialized.as_("halves")), ps.KTable[str, float])

# ---- all of it in one chain ----

(
    lines.flat_map_values(str.split)
    .group_by(lambda key, word: word, ps.Grouped.with_(ps.Serdes.string(), ps.Serdes.string()))
    .aggregate(
        lambda: 0.0,
        lambda word, same, weight: weight + len(word) / len(same),
        ps.Materialized.as_("weights").with_value_serde(ps.Serdes.double()),
    )
    .to_stream()
    .join(users, lambda weight, user: weight * user, ps.Joined.as_("weighted"))
    .filter(lambda word, weight: weight > 0.5 and word.isalpha())
    .map(lambda word, weight: (word.encode(), round(weight)))
    .to("out", ps.Produced.with_(ps.Serdes.bytes(), ps.Serdes.long()))
)

# ---- global tables ----

regions = builder.global_table("regions", ps.Consumed.with_(ps.Serdes.long(), ps.Serdes.double()))
assert_type(regions, ps.GlobalKTable[int, float])
assert_type(builder.global_table("anything-global"), ps.GlobalKTable[Any, Any])
assert_type(
    builder.global_table("named", materialized=ps.Materialized.with_(ps.Serdes.string(), ps.Serdes.long())),
    ps.GlobalKTable[str, int],
)
assert_type(regions.queryable_store_name, str | None)
assert_type(lines.join(regions, lambda line: len(line), lambda line, region: region / 2), ps.KStream[str, float])
assert_type(
    lines.join(regions, lambda key, line: len(key + line), lambda line, region: line, named="by-length"),
    ps.KStream[str, str],
)
assert_type(
    lines.join(regions, lambda line: len(line) or None, lambda key, line, region: (key, region)),
    ps.KStream[str, tuple[str, float]],
)
assert_type(
    lines.join(regions, lambda key, line: len(key), lambda key, line, region: key.encode()), ps.KStream[str, bytes]
)
assert_type(
    lines.left_join(regions, lambda line: len(line), lambda line, region: region), ps.KStream[str, float | None]
)


class KeepLengths(ps.Processor[str, str, None, None]):
    """Keeps a global store."""

    def process(self, record: ps.Record[str, str]) -> None:
        assert_type(record.value, str)


builder.add_global_store(
    ps.Stores.key_value_store_builder(
        ps.Stores.persistent_key_value_store("lengths"), ps.Serdes.string(), ps.Serdes.long()
    ),
    "lengths-topic",
    ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()),
    KeepLengths,
)
