"""Processors that keep their context."""

from __future__ import annotations

import penstock as ps


def test_a_contextual_processor_keeps_its_context() -> None:
    class Twice(ps.ContextualProcessor[str, str, str, str]):
        def process(self, record: ps.Record[str, str]) -> None:
            self.context.forward(record)
            self.context.forward(record.with_value(record.value + "!"))

    class Loud(ps.ContextualFixedKeyProcessor[str, str, str]):
        def init(self, context: ps.FixedKeyProcessorContext[str, str]) -> None:
            super().init(context)
            self.prefix = context.application_id

        def process(self, record: ps.FixedKeyRecord[str, str]) -> None:
            self.context.forward(record.with_value(f"{self.prefix}: {record.value}"))

    string = ps.Serdes.string()
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(string, string)).process(Twice).process_values(Loud)
    stream.to("out", ps.Produced.with_(string, string))
    with ps.TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        driver.create_input_topic("in", string, string).pipe_input("k", "v", 1)
        found = driver.create_output_topic("out", string, string).read_values_to_list()
    assert found == ["app: v", "app: v!"]
