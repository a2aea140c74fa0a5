"""Versioned tables and stores: types follow from the serdes, as of others."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

import penstock as ps

string, long = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()
kept: ps.Materialized[str, int] = ps.Materialized.as_(
    ps.Stores.persistent_versioned_key_value_store("prices", timedelta(hours=1), segment_interval=timedelta(minutes=5))
)
prices = builder.table("prices", ps.Consumed.with_(string, long), kept)
orders = builder.stream("orders", ps.Consumed.with_(string, string))
waiting = ps.Joined.with_(string, string, long).with_grace_period(timedelta(minutes=1))
assert_type(waiting, ps.Joined[str, str, int])
assert_type(prices, ps.KTable[str, int])
assert_type(orders.join(prices, lambda order, price: order * price, waiting), ps.KStream[str, str])
assert_type(
    ps.Stores.versioned_key_value_store_builder(
        ps.Stores.in_memory_versioned_key_value_store("history", 60_000), string, long
    ),
    ps.StoreBuilder[str, int],
)


class Correct(ps.Processor[str, int, str, int]):
    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        self.history: ps.VersionedKeyValueStore[str, int] = context.get_state_store("history")

    def process(self, record: ps.Record[str, int]) -> None:
        if self.history.put(record.key, record.value, record.timestamp) == self.history.PUT_RETURN_CODE_NOT_PUT:
            return
        before = self.history.get(record.key, record.timestamp - 1)
        assert_type(before, ps.VersionedRecord[int] | None)
        if before is not None:
            assert_type(before.value, int)
            assert_type(before.timestamp, int)
            assert_type(before.valid_to, int | None)
        assert_type(self.history.delete(record.key, record.timestamp), ps.VersionedRecord[int] | None)
