"""The test driver: topics keep the types of their serdes, stores those that are written where they are got."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import penstock as ps

string, long = ps.Serdes.string(), ps.Serdes.long()

with ps.TopologyTestDriver(ps.StreamsBuilder().build(), {}, datetime(2026, 1, 1, tzinfo=UTC)) as driver:
    source = driver.create_input_topic("in", string, long, datetime.now(UTC), timedelta(seconds=1))
    assert_type(source, ps.TestInputTopic[str, int])
    source.pipe_input("ada", 1)
    source.pipe_input("ada", None, 1_000, [("header", b"value"), ("null", None)])
    source.pipe_input(None, 1, datetime.now(UTC))
    source.pipe_input(1)
    source.pipe_input(None)
    source.pipe_input(ps.TestRecord("ada", 1, 0))
    source.pipe_record(ps.TestRecord(None, 1, 0))
    source.pipe_record_list([ps.TestRecord("ada", None, 0, [("header", None)])])
    source.pipe_key_value_list([("ada", 1), (None, None)], 5, timedelta(seconds=1))
    source.pipe_value_list(iter([1, None]), datetime.now(UTC))
    source.advance_time(5)

    serde = ps.WindowedSerdes.time_windowed_serde_from(string, 60_000)
    sink = driver.create_output_topic("out", serde, long)
    assert_type(sink, ps.TestOutputTopic[ps.Windowed[str], int])
    assert_type(sink.read_value(), int | None)
    assert_type(sink.read_key_value(), tuple[ps.Windowed[str] | None, int | None])
    assert_type(sink.read_record(), ps.TestRecord[ps.Windowed[str] | None, int | None])
    assert_type(sink.read_values_to_list(), list[int | None])
    assert_type(sink.read_key_values_to_list(), list[tuple[ps.Windowed[str] | None, int | None]])
    assert_type(sink.read_records_to_list(), list[ps.TestRecord[ps.Windowed[str] | None, int | None]])
    assert_type(sink.read_key_values_to_map(), dict[ps.Windowed[str] | None, int | None])
    assert_type((sink.is_empty(), sink.get_queue_size()), tuple[bool, int])

    counts: ps.KeyValueStore[str, int] = driver.get_key_value_store("counts")
    assert_type(counts.get("ada"), int | None)
    stamped: ps.KeyValueStore[str, ps.ValueAndTimestamp[int]] = driver.get_timestamped_key_value_store("counts")
    assert_type(stamped.get("ada"), ps.ValueAndTimestamp[int] | None)
    windows: ps.WindowStore[str, int] = driver.get_window_store("windows")
    assert_type(windows.fetch("ada", 0), int | None)
    times: ps.WindowStore[str, ps.ValueAndTimestamp[int]] = driver.get_timestamped_window_store("windows")
    assert_type(times.fetch("ada", 0), ps.ValueAndTimestamp[int] | None)
    sessions: ps.SessionStore[str, int] = driver.get_session_store("sessions")
    assert_type(sessions.fetch_session("ada", 0, 5), int | None)
    history: ps.VersionedKeyValueStore[str, int] = driver.get_versioned_key_value_store("history")
    assert_type(history.get("ada", 5), ps.VersionedRecord[int] | None)
    assert_type(driver.get_all_state_stores(), dict[str, Any])
    assert_type(driver.produced_topic_names(), set[str])
    driver.advance_wall_clock_time(timedelta(seconds=1))
