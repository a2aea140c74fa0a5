"""Option objects: their types follow from the serdes; without serdes, from the call that they are passed to."""

from __future__ import annotations

import uuid
from typing import Any, assert_type

import penstock as ps

assert_type(ps.Serdes.string(), ps.Serde[str])
assert_type(ps.Serdes.bytes(), ps.Serde[bytes])
assert_type(ps.Serdes.double(), ps.Serde[float])
assert_type(ps.Serdes.boolean(), ps.Serde[bool])
assert_type(ps.Serdes.uuid(), ps.Serde[uuid.UUID])
assert_type(ps.Serdes.void(), ps.Serde[None])
assert_type(ps.Serde("hex", bytes.fromhex, bytes.hex), ps.Serde[str])

string, long = ps.Serdes.string(), ps.Serdes.long()
assert_type(ps.Consumed.with_(string, long), ps.Consumed[str, int])
assert_type(ps.Consumed.with_(string, long, offset_reset="latest"), ps.Consumed[str, int])
assert_type(ps.Consumed.with_(string, long, offset_reset=ps.AutoOffsetReset.by_duration(60_000)), ps.Consumed[str, int])
assert_type(ps.Consumed.with_(value_serde=long), ps.Consumed[Any, int])
assert_type(ps.Consumed.as_("source").with_value_serde(long), ps.Consumed[Any, int])
assert_type(ps.Consumed.with_(string, long).with_key_serde(long).with_name("source"), ps.Consumed[int, int])
assert_type(ps.Produced.with_(string, long), ps.Produced[str, int])
assert_type(ps.Produced.with_(string, long, partitioner=lambda topic, key, value, count: 0), ps.Produced[str, int])
assert_type(ps.Grouped.with_(string, long).with_name("name"), ps.Grouped[str, int])
assert_type(ps.Joined.with_(string, long, string), ps.Joined[str, int, str])
assert_type(ps.Repartitioned.with_(string, long).with_number_of_partitions(4), ps.Repartitioned[str, int])
assert_type(ps.Repartitioned.as_("name").with_key_serde(string).with_value_serde(long), ps.Repartitioned[str, int])
assert_type(ps.Materialized.with_(string, long), ps.Materialized[str, int])
assert_type(ps.Materialized.as_("name").with_key_serde(string).with_value_serde(long), ps.Materialized[str, int])
assert_type(
    ps.Materialized.with_(string, long).with_logging_enabled({"min.compaction.lag.ms": "1000"}),
    ps.Materialized[str, int],
)

counts: ps.Materialized[str, int] = ps.Materialized.as_("counts")
in_memory: ps.Materialized[str, int] = ps.Materialized.as_(ps.Stores.in_memory_key_value_store("counts"))
assert_type(counts.with_store_type(ps.StoreType.IN_MEMORY), ps.Materialized[str, int])
