"""Faults in processors, stores and the test driver: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps


class Lengths(ps.Processor[str, str, str, int]):
    """Forwards what it should not."""

    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        """Open."""
        self._context = context
        self._seen: ps.KeyValueStore[str, int] = context.get_state_store("seen")
        context.schedule("1s", ps.PunctuationType.STREAM_TIME, lambda now_ms: None)  # error

    def process(self, record: ps.Record[str, str]) -> None:
        """Forward."""
        self._context.forward(record)  # error
        self._context.forward(record.with_key(1).with_value(2))  # error
        self._seen.put(record.key, record.value)  # error
        self._seen.put(len(record.key), 1)  # error
        self._seen.get(record.key).bit_length()  # error
        record.timestamp = 0  # error
        ps.ValueAndTimestamp(record.value, 1).value.bit_length()  # error


class Windows(ps.Processor[str, int, str, int]):
    """Asks its stores for what they do not have."""

    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        """Open the stores."""
        self._windows: ps.WindowStore[str, int] = context.get_state_store("windows")
        self._sessions: ps.SessionStore[str, int] = context.get_state_store("sessions")

    def process(self, record: ps.Record[str, int]) -> None:
        """Read and write."""
        self._windows.put(record.key, record.value)  # error
        self._windows.put(record.key, "text", 0)  # error
        self._windows.fetch(record.key)  # error
        self._windows.fetch(record.value, 0)  # error
        self._windows.fetch(record.key, 0).bit_length()  # error
        self._sessions.put(record.key, 1)  # error
        self._sessions.put(ps.Windowed(1, ps.Window(0, 5)), 1)  # error
        self._sessions.find_sessions(record.key, 0)  # error
        self._sessions.fetch_session(record.key, 0)  # error


class Wrong(ps.Processor[str, str, str, int]):
    """Takes another record than its type declares."""

    def process(self, record: ps.Record[str, int]) -> None:  # error
        """Never called."""


builder = ps.StreamsBuilder()
lines = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
lines.process(Lengths())  # error
lines.map_values(len).process(Lengths)  # error
lines.process(Lengths).map_values(lambda length: length.upper())  # error

supplier = ps.Stores.persistent_key_value_store("seen")
builder.add_state_store(supplier)  # error
ps.Stores.window_store_builder(supplier, ps.Serdes.string(), ps.Serdes.long())  # error
ps.Stores.persistent_window_store("windows", "1h", 10)  # error
ps.Stores.key_value_store_builder("seen", ps.Serdes.string(), ps.Serdes.long())  # error

with ps.TopologyTestDriver(builder.build()) as driver:
    source = driver.create_input_topic("lines", ps.Serdes.string(), ps.Serdes.long())
    source.pipe_input("ada", "text")  # error
    source.pipe_input(1, 2)  # error
    sink = driver.create_output_topic("out", ps.Serdes.string(), ps.Serdes.long())
    sink.read_value().upper()  # error

app = ps.KafkaStreams(builder, {"application.id": "wrong"})  # error
app.start_now()  # error
app.close(leave_group=True)  # error
ps.CloseOptions.group_membership_operation("LEAVE_GROUP")  # error
ps.run(builder.build())  # error
if app.state() is ps.ApplicationState.RUNING:  # error
    pass
