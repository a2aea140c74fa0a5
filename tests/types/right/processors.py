"""The Processor API: topologies by hand, fixed keys, suppliers with stores, wrappers, print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, assert_type

import penstock as ps

TEXT, LONG = ps.Serdes.string(), ps.Serdes.long()


class Last(ps.FixedKeyProcessor[str, str, int]):
    """Forwards the number of characters by which each value is longer than the one before."""

    def __init__(self, at_least: int = 0) -> None:
        self._at_least = at_least

    @classmethod
    def stores(cls) -> list[ps.StoreBuilder[str, int]]:
        """Returns the store of the lengths."""
        return [ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("lengths"), TEXT, LONG)]

    def init(self, context: ps.FixedKeyProcessorContext[str, int]) -> None:
        """Open the store."""
        self._context = context
        self._lengths: ps.KeyValueStore[str, int] = context.get_state_store("lengths")
        timer = context.schedule(
            timedelta(seconds=1), ps.PunctuationType.STREAM_TIME, print, start_time=datetime.now(UTC)
        )
        assert_type(timer, ps.Cancellable)
        assert_type(context.app_configs(), Mapping[str, Any])
        assert_type(context.key_serde, ps.Serde[Any] | None)

    def process(self, record: ps.FixedKeyRecord[str, str]) -> None:
        """Forward."""
        assert_type(record.key, str)
        assert_type(record.with_timestamp(record.timestamp + 1), ps.FixedKeyRecord[str, str])
        more = len(record.value) - (self._lengths.get(record.key) or 0)
        assert_type(record.with_value(more), ps.FixedKeyRecord[str, int])
        if more >= self._at_least:
            self._context.forward(record.with_value(more).with_headers([]))


class Shout(ps.Processor[str, str, str, str]):
    """Forwards in capitals."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        """Keep the context."""
        self._context = context

    def process(self, record: ps.Record[str, str]) -> None:
        """Forward."""
        self._context.forward(record.with_value(record.value.upper()), "Out")


class Timed(ps.ProcessorWrapper):
    """Wraps only processors that may change keys."""

    def wrap_processor_supplier(
        self, name: str, supplier: Callable[[], ps.Processor[Any, Any, Any, Any]]
    ) -> Callable[[], ps.Processor[Any, Any, Any, Any]]:
        """Returns ``supplier`` as it is."""
        return supplier


builder = ps.StreamsBuilder()
lines = builder.stream("lines", ps.Consumed.with_(TEXT, TEXT))
assert_type(lines.process_values(Last), ps.KStream[str, int])
assert_type(lines.process_values(partial(Last, 5), "seen", named="last"), ps.KStream[str, int])
assert_type(lines.process(Shout, named="shout"), ps.KStream[str, str])
lines.print(ps.Printed.to_sys_out())
lines.print(ps.Printed.to_sys_out().with_label("lines").with_name("printer"))
lines.print(ps.Printed.to_sys_out().with_key_value_mapper(lambda key, value: f"{key} {value}"))
lines.process_values(Last).print(ps.Printed[str, int](mapper=lambda key, value: f"{key.upper()}{value + 1}"))

topology = builder.build({"processor.wrapper.class": Timed})
assert_type(topology, ps.Topology)
assert_type(topology.add_source("More", "more", "others", key_serde=TEXT, offset_reset="latest"), ps.Topology)
topology.add_processor("Shout", Shout, "More").add_sink("Out", "out", "Shout", "More", value_serde=TEXT)
topology.add_sink("Chosen", lambda key, value, context: f"out-{context.partition}", "Shout")
store = ps.Stores.key_value_store_builder(ps.Stores.in_memory_key_value_store("seen"), TEXT, TEXT)
topology.add_state_store(store, "Shout").connect_processor_and_state_stores("Shout", "lengths")
topology.add_global_store(store, "G", "all", "Keep", Shout, key_serde=TEXT, value_serde=TEXT)
topology.add_read_only_state_store(store, "R", "rates", "KeepRates", Shout)
assert_type(topology.describe(), ps.TopologyDescription)
