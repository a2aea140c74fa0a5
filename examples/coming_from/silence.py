"""Reports each user who has done nothing for a minute."""

import penstock as ps

text, number = ps.Serdes.string(), ps.Serdes.long()


class Silence(ps.Processor[str, str, str, str]):
    """Keeps the time of each user's last event, and looks every ten seconds."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        """Called when the task starts."""
        self.context = context
        self.seen: ps.KeyValueStore[str, int] = context.get_state_store("seen")
        context.schedule(10_000, ps.PunctuationType.STREAM_TIME, self.look)

    def process(self, record: ps.Record[str, str]) -> None:
        """Called for each event."""
        self.seen.put(record.key, record.timestamp)

    def look(self, now_ms: int) -> None:
        """Called by the timer."""
        for user, seen_ms in self.seen.all():
            if now_ms - seen_ms >= 60_000:
                self.seen.delete(user)
                self.context.forward(ps.Record(user, "silent", now_ms))


builder = ps.StreamsBuilder()
builder.add_state_store(ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("seen"), text, number))
(
    builder.stream("events", ps.Consumed.with_(text, text))
    .process(Silence, "seen")
    .to("silent-users", ps.Produced.with_(text, text))
)
topology = builder.build()
