"""Faults with the test driver: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

string, long = ps.Serdes.string(), ps.Serdes.long()

with ps.TopologyTestDriver(ps.StreamsBuilder().build()) as driver:
    source = driver.create_input_topic("in", string, long)
    source.pipe_input("ada", "one")  # error
    source.pipe_input(1, 1)  # error
    source.pipe_input("one")  # error
    source.pipe_input("ada", 1, "noon")  # error
    source.pipe_input("ada", 1, 0, [("header", "text")])  # error
    source.pipe_input(ps.TestRecord(1, 1, 0))  # error
    source.pipe_record_list([ps.TestRecord("ada", "one", 0)])  # error
    source.pipe_key_value_list([("ada", "one")])  # error
    source.pipe_value_list(["one"])  # error
    source.advance_time("1 s")  # error
    driver.create_input_topic("in", string)  # error
    driver.create_input_topic("in", "string", long)  # error

    sink = driver.create_output_topic("out", string, long)
    sink.read_value().bit_length()  # error
    sink.read_key_value()[0].upper()  # error
    sink.read_key_values_to_map()["ada"].bit_length()  # error
    sink.read_record().timestamp = 5  # error

    counts: ps.KeyValueStore[str, int] = driver.get_key_value_store("counts")
    counts.put("ada", "one")  # error
    counts.get("ada").bit_length()  # error
    windows: ps.KeyValueStore[str, int] = driver.get_window_store("windows")  # error
    sessions: ps.WindowStore[str, int] = driver.get_session_store("sessions")  # error
    history: ps.KeyValueStore[str, int] = driver.get_versioned_key_value_store("history")  # error
    print(driver.get_timestamped_key_value_store("counts").get("ada").value)  # error
    driver.advance_wall_clock_time(1.5)  # error
