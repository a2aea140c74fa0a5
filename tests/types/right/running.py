"""Processors, stores, the test driver, and the names that are imported when they are first used."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

import penstock as ps


class Lengths(ps.Processor[str, str, str, int]):
    """Forwards the length of each value."""

    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        """Keep the context."""
        self._context = context

    def process(self, record: ps.Record[str, str]) -> None:
        """Forward."""
        self._context.forward(record.with_value(len(record.value)))


class Seen(ps.Processor[str, int, str, ps.ValueAndTimestamp[int]]):
    """Keeps how often each key came."""

    def init(self, context: ps.ProcessorContext[str, ps.ValueAndTimestamp[int]]) -> None:
        """Open the store, set a timer."""
        self._context = context
        self._seen: ps.KeyValueStore[str, int] = context.get_state_store("seen")
        self._totals: ps.KeyValueStore[str, ps.ValueAndTimestamp[int]] = context.get_state_store("totals")
        assert_type(context.task_id, ps.TaskId)
        timer = context.schedule(1_000, ps.PunctuationType.WALL_CLOCK_TIME, lambda now_ms: self.look(now_ms))
        assert_type(timer, ps.Cancellable)

    def process(self, record: ps.Record[str, int]) -> None:
        """Count."""
        assert_type(self._seen.get(record.key), int | None)
        self._seen.put(record.key, (self._seen.get(record.key) or 0) + record.value)
        if (total := self._totals.get(record.key)) is not None:
            assert_type(total.value, int)
        assert_type(self._context.record_metadata(), ps.RecordMetadata | None)

    def look(self, now_ms: int) -> None:
        """Forward and forget."""
        for key, count in self._seen.all():
            self._seen.delete(key)
            self._context.forward(ps.Record(key, ps.ValueAndTimestamp(count, now_ms), now_ms))


class Windows(ps.Processor[str, int, str, int]):
    """Keeps counts by window and by session."""

    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        """Open the stores."""
        self._windows: ps.WindowStore[str, int] = context.get_state_store("windows")
        self._stamped: ps.WindowStore[str, ps.ValueAndTimestamp[int]] = context.get_state_store("stamped")
        self._sessions: ps.SessionStore[str, int] = context.get_state_store("sessions")

    def process(self, record: ps.Record[str, int]) -> None:
        """Read and write."""
        self._windows.put(record.key, record.value, 0)
        self._stamped.put(record.key, ps.ValueAndTimestamp(record.value, 1), 0)
        assert_type(self._windows.fetch(record.key, 0), int | None)
        for start, count in self._windows.backward_fetch(record.key, 0, 10):
            assert_type((start, count), tuple[int, int])
        for key, count in self._windows.fetch(None, record.key, 0, 10):
            assert_type(key, ps.Windowed[str])
            assert_type((key.key, key.window.end, count), tuple[str, int, int])
        for _, stamped in self._stamped.fetch_all(0, 10):
            assert_type(stamped.value, int)
        self._sessions.put(ps.Windowed(record.key, ps.Window(0, 5)), None)
        assert_type(self._sessions.fetch_session(record.key, 0, 5), int | None)
        for session, count in self._sessions.find_sessions(record.key, 0, 10):
            self._sessions.remove(session)
            assert_type(count, int)
        assert_type(next(self._sessions.fetch(None, record.key)), tuple[ps.Windowed[str], int])


builder = ps.StreamsBuilder()
windows = ps.Stores.persistent_window_store("windows", timedelta(hours=1), 60_000, retain_duplicates=True)
assert_type(ps.Stores.window_store_builder(windows, ps.Serdes.string(), ps.Serdes.long()), ps.StoreBuilder[str, int])
sessions = ps.Stores.in_memory_session_store("sessions", timedelta(hours=1))
assert_type(ps.Stores.session_store_builder(sessions, ps.Serdes.string(), ps.Serdes.long()), ps.StoreBuilder[str, int])
supplier = ps.Stores.persistent_key_value_store("seen")
store = ps.Stores.key_value_store_builder(supplier, ps.Serdes.string(), ps.Serdes.long())
assert_type(store, ps.StoreBuilder[str, int])
assert_type(store.with_caching_enabled(), ps.StoreBuilder[str, int])
assert_type(builder.add_state_store(store), ps.StreamsBuilder)

lines = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
lengths = lines.process(Lengths)
assert_type(lengths, ps.KStream[str, int])
assert_type(lengths.process(lambda: Seen(), "seen"), ps.KStream[str, ps.ValueAndTimestamp[int]])

topology = builder.build({"topology.optimization": "all"})
assert_type(topology, ps.Topology)
assert_type(topology.describe(), ps.TopologyDescription)

with ps.TopologyTestDriver(topology) as driver:
    source = driver.create_input_topic("lines", ps.Serdes.string(), ps.Serdes.string())
    assert_type(source, ps.TestInputTopic[str, str])
    source.pipe_input("ada", "text", timestamp_ms=1_000)
    source.pipe_input(None, None)
    sink = driver.create_output_topic("out", ps.Serdes.string(), ps.Serdes.long())
    assert_type(sink, ps.TestOutputTopic[str, int])
    assert_type(sink.read_value(), int | None)
    assert_type(sink.read_record(), ps.TestRecord[str | None, int | None])

app = ps.KafkaStreams(topology, {"application.id": "typed", "bootstrap.servers": "127.0.0.1:9092"})
assert_type(app, ps.KafkaStreams)
assert_type(app.state() is ps.ApplicationState.RUNNING, bool)
assert_type(ps.__version__, str)
leave = ps.CloseOptions.group_membership_operation(ps.CloseOptions.GroupMembershipOperation.LEAVE_GROUP)
assert_type(leave.with_timeout(30), ps.CloseOptions)
assert_type(app.close(leave), bool)
assert_type(app.close(30.0), bool)


def main() -> None:
    """Is only type-checked, never called."""
    try:
        ps.run(app)
    except (ps.MissingTopicError, ps.BrokerUnreachableError, ps.TaskNotReadyError) as error:
        assert_type(error, ps.MissingTopicError | ps.BrokerUnreachableError | ps.TaskNotReadyError)
    except ps.RecordError as error:
        assert_type(error.offset, int | None)
