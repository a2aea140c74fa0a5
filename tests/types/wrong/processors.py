"""Faults in the Processor API: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

TEXT = ps.Serdes.string()


class Last(ps.FixedKeyProcessor[str, str, int]):
    """Forwards what it may not."""

    def init(self, context: ps.FixedKeyProcessorContext[str, int]) -> None:
        """Keep the context."""
        self._context = context
        context.schedule(5, ps.PunctuationType.STREAM_TIME, print, start_time="soon")  # error

    def process(self, record: ps.FixedKeyRecord[str, str]) -> None:
        """Forward."""
        record.key = "other"  # error
        record.with_key("other")  # error
        self._context.forward(record)  # error
        self._context.forward(record.with_value("text"))  # error
        self._context.forward(ps.Record(record.key, 1, record.timestamp))  # error
        ps.FixedKeyRecord("k", 1, 5)  # error


class Shout(ps.Processor[str, str, str, str]):
    """Forwards nothing."""

    def process(self, record: ps.Record[str, str]) -> None:
        """Drop."""


builder = ps.StreamsBuilder()
lines = builder.stream("lines", ps.Consumed.with_(TEXT, TEXT))
numbers = builder.stream("numbers", ps.Consumed.with_(TEXT, ps.Serdes.long()))
lines.process_values(Shout)  # error
lines.process(Last)  # error
numbers.process_values(Last)  # error
lines.process_values(Last).map_values(str.upper)  # error
lines.process_values(Last())  # error
lines.print("label")  # error
lines.print(ps.Printed[str, int]())  # error

topology = ps.Topology()
topology.add_source("A")
topology.add_source("A", 7)  # error
topology.add_source("A", "in", key_serde="string")  # error
topology.add_source("A", "in", offset_reset="newest")  # error
topology.add_processor("B", Last, "A")  # error
topology.add_processor("B", Shout(), "A")  # error
topology.add_processor("B", Shout, 7)  # error
topology.add_sink("C", 7, "B")  # error
topology.add_state_store("store", "B")  # error
