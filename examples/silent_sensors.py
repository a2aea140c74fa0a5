"""A processor with a store and a punctuator: it reports each sensor that has been silent for a minute, once.

Topics: ``readings`` (sensor → temperature), ``silent-sensors`` (sensor → seconds without a reading). The punctuator
follows event time, so a replay of old readings gives the same reports. While *no* sensor sends anything, event time
does not advance: use ``PunctuationType.WALL_CLOCK_TIME`` if that must be reported, too.
"""

from __future__ import annotations

import os
from datetime import timedelta

import penstock as ps

MINUTE_MS = 60_000


class WatchSilence(ps.ContextualProcessor[str, float, str, int]):
    """Keeps the time of the last reading of each sensor that is not reported as silent."""

    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        super().init(context)
        self.last_readings: ps.KeyValueStore[str, int] = context.get_state_store("last-readings")
        context.schedule(timedelta(seconds=10), ps.PunctuationType.STREAM_TIME, self.report)

    def process(self, record: ps.Record[str, float]) -> None:
        last = self.last_readings.get(record.key)
        self.last_readings.put(record.key, max(record.timestamp, last or 0))

    def report(self, now_ms: int) -> None:
        """Forwards the sensors that have been silent for a minute, and forgets them until they send again."""
        for sensor, last in list(self.last_readings.all()):
            if now_ms - last >= MINUTE_MS:
                self.context.forward(ps.Record(sensor, (now_ms - last) // 1000, now_ms))
                self.last_readings.delete(sensor)


strings = ps.Serdes.string()
builder = ps.StreamsBuilder()
builder.add_state_store(
    ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("last-readings"), strings, ps.Serdes.long())
)
(
    builder.stream("readings", ps.Consumed.with_(strings, ps.Serdes.double()))
    .process(WatchSilence, "last-readings")
    .to("silent-sensors", ps.Produced.with_(strings, ps.Serdes.long()))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "silent-sensors",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    },
)

if __name__ == "__main__":
    ps.run(app)
