"""The driver's getters: one for each kind of store, with an error for other kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import penstock as ps

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
GETTERS = (
    "get_key_value_store",
    "get_timestamped_key_value_store",
    "get_versioned_key_value_store",
    "get_window_store",
    "get_timestamped_window_store",
    "get_session_store",
)
FITTING = {
    "plain": {"get_key_value_store"},
    "counts": {"get_key_value_store", "get_timestamped_key_value_store"},
    "history": {"get_versioned_key_value_store"},
    "windows": {"get_window_store"},
    "per-ten": {"get_window_store", "get_timestamped_window_store"},
    "visits": {"get_session_store"},
    "names": {"get_key_value_store", "get_timestamped_key_value_store"},
}


class Keeping(ps.Processor[str, str, str, str]):
    """Puts what it gets into two stores."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.plain: ps.KeyValueStore[str, str] = context.get_state_store("plain")
        self.windows: ps.WindowStore[str, str] = context.get_state_store("windows")

    def process(self, record: ps.Record[str, str]) -> None:
        self.plain.put(record.key, record.value)
        self.windows.put(record.key, record.value, record.timestamp)


@pytest.fixture
def driver() -> Iterator[ps.TopologyTestDriver]:
    builder = ps.StreamsBuilder()
    plain, windows = ps.Stores.in_memory_key_value_store("plain"), ps.Stores.in_memory_window_store("windows", 100, 10)
    builder.add_state_store(ps.Stores.key_value_store_builder(plain, STRING, STRING))
    builder.add_state_store(ps.Stores.window_store_builder(windows, STRING, STRING))
    builder.global_table("names", ps.Consumed.with_(STRING, STRING), ps.Materialized.as_("names"))
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.process(Keeping, "plain", "windows")
    grouped = stream.group_by_key(ps.Grouped.with_(STRING, STRING))
    grouped.count(ps.Materialized.as_("counts"))
    grouped.windowed_by(ps.TimeWindows.of_size_with_no_grace(10)).count(ps.Materialized.as_("per-ten"))
    grouped.windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(10)).count(ps.Materialized.as_("visits"))
    history = ps.Stores.persistent_versioned_key_value_store("history", 1000)
    builder.table("table", ps.Consumed.with_(STRING, STRING), ps.Materialized.as_(history))
    with ps.TopologyTestDriver(builder.build(), initial_wall_clock_ms=77) as driver:
        source = driver.create_input_topic("in", STRING, STRING)
        for time in (3, 4, 30):
            source.pipe_input("k", f"v{time}", time)
        table = driver.create_input_topic("table", STRING, STRING)
        table.pipe_input("k", "old", 5)
        table.pipe_input("k", "new", 9)
        driver.create_input_topic("names", STRING, STRING).pipe_input("n", "name", 8)
        yield driver


def test_a_key_value_store(driver: ps.TopologyTestDriver) -> None:
    assert list(driver.get_key_value_store("plain").all()) == [("k", "v30")]


def test_a_prefix_is_bytes(driver: ps.TopologyTestDriver) -> None:
    for store in (driver.get_key_value_store("plain"), driver.get_state_store("counts")):
        assert [key for key, _ in store.prefix_scan(b"k")] == ["k"]
        with pytest.raises(TypeError, match=r"a prefix is that of serialised keys, bytes, .* not 'k' \(str\)"):
            store.prefix_scan("k")  # type: ignore[arg-type]  # the mistake


def test_a_table_is_shown_with_and_without_its_timestamps(driver: ps.TopologyTestDriver) -> None:
    assert driver.get_key_value_store("counts").get("k") == 3
    assert driver.get_timestamped_key_value_store("counts").get("k") == ps.ValueAndTimestamp(3, 30)


def test_a_global_table_too(driver: ps.TopologyTestDriver) -> None:
    assert driver.get_key_value_store("names").get("n") == "name"
    assert driver.get_timestamped_key_value_store("names").get("n") == ps.ValueAndTimestamp("name", 8)


def test_a_versioned_store(driver: ps.TopologyTestDriver) -> None:
    history = driver.get_versioned_key_value_store("history")
    assert history.get("k", 6) == ps.VersionedRecord("old", 5, 9)
    assert history.get("k") == ps.VersionedRecord("new", 9)


def test_a_window_store(driver: ps.TopologyTestDriver) -> None:
    assert list(driver.get_window_store("windows").fetch("k", 0, 5)) == [(3, "v3"), (4, "v4")]


def test_a_windowed_aggregate_is_shown_with_and_without_its_timestamps(driver: ps.TopologyTestDriver) -> None:
    values, stamped = driver.get_window_store("per-ten"), driver.get_timestamped_window_store("per-ten")
    assert (values.fetch("k", 30), stamped.fetch("k", 30)) == (1, ps.ValueAndTimestamp(1, 30))
    assert list(stamped.fetch("k", 0, 100)) == [(30, ps.ValueAndTimestamp(1, 30))]
    found = [(ps.Windowed("k", ps.Window(30, 40)), 1)]
    assert list(values.fetch("k", 0, 100)) == list(values.backward_fetch("k", 0, 100)) == [(30, 1)]
    assert list(values.fetch("k", "k", 0, 100)) == list(values.fetch_all(0, 100)) == list(values.all()) == found
    assert list(values.backward_fetch_all(0, 100)) == list(values.backward_all()) == found


def test_a_session_store(driver: ps.TopologyTestDriver) -> None:
    assert list(driver.get_session_store("visits").fetch("k")) == [(ps.Windowed("k", ps.Window(30, 30)), 1)]


def test_all_stores(driver: ps.TopologyTestDriver) -> None:
    stores = driver.get_all_state_stores()
    assert set(stores) == set(FITTING)
    assert stores["counts"].get("k") == ps.ValueAndTimestamp(3, 30)


@pytest.mark.parametrize("getter", GETTERS)
@pytest.mark.parametrize("store", FITTING)
def test_a_getter_of_another_kind_names_the_one_that_fits(
    driver: ps.TopologyTestDriver, store: str, getter: str
) -> None:
    if getter in FITTING[store]:
        assert getattr(driver, getter)(store).name == store
        return
    with pytest.raises(ps.UnknownStateStoreError) as raised:
        getattr(driver, getter)(store)
    named = str(raised.value).rpartition(" ")[2]
    assert named in FITTING[store]
    assert f"store {store!r} is a " in str(raised.value)


@pytest.mark.parametrize("getter", [*GETTERS, "get_state_store"])
def test_a_store_that_is_not_there_is_refused_with_those_that_are(driver: ps.TopologyTestDriver, getter: str) -> None:
    with pytest.raises(ps.UnknownStateStoreError, match=r"no store 'count'; stores of the topology: .*counts.*names"):
        getattr(driver, getter)("count")


@pytest.mark.parametrize("getter", [*GETTERS, "get_state_store"])
def test_a_closed_driver_gives_no_store(driver: ps.TopologyTestDriver, getter: str) -> None:
    driver.close()
    with pytest.raises(ps.StreamsError, match="the driver is closed"):
        getattr(driver, getter)("counts")
    with pytest.raises(ps.StreamsError, match="the driver is closed"):
        driver.get_all_state_stores()


class TestWriting:
    def test_a_value_that_is_put_gets_the_drivers_time(self, driver: ps.TopologyTestDriver) -> None:
        counts = driver.get_key_value_store("counts")
        counts.put("a", 5)
        counts.put_all([("b", 6), ("c", 7)])
        assert counts.put_if_absent("a", 8) == 5
        assert counts.put_if_absent("d", 8) is None
        driver.advance_wall_clock_time(3)
        counts.put("b", 9)
        stamped = driver.get_timestamped_key_value_store("counts")
        assert [stamped.get(key) for key in "abcd"] == [
            ps.ValueAndTimestamp(5, 77),
            ps.ValueAndTimestamp(9, 80),
            ps.ValueAndTimestamp(7, 77),
            ps.ValueAndTimestamp(8, 77),
        ]

    def test_the_program_continues_with_it(self, driver: ps.TopologyTestDriver) -> None:
        driver.get_key_value_store("counts").put("k", 40)
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v", 31)
        assert driver.get_key_value_store("counts").get("k") == 41

    def test_values_are_deleted(self, driver: ps.TopologyTestDriver) -> None:
        counts = driver.get_key_value_store("counts")
        assert counts.delete("k") == 3
        counts.put("a", 1)
        counts.put("a", None)
        assert list(counts.all()) == []

    def test_ranges_show_values(self, driver: ps.TopologyTestDriver) -> None:
        counts = driver.get_key_value_store("counts")
        counts.put_all([("a", 1), ("b", 2)])
        assert list(counts.range("a", "b")) == [*counts.prefix_scan(b"a"), ("b", 2)] == [("a", 1), ("b", 2)]
        assert list(counts.reverse_range("a", "b")) == [("b", 2), ("a", 1)]
        assert list(counts.reverse_all()) == list(reversed(list(counts.all()))) == [("k", 3), ("b", 2), ("a", 1)]
        assert counts.approximate_num_entries() == 3

    def test_a_value_in_a_window_gets_the_drivers_time(self, driver: ps.TopologyTestDriver) -> None:
        driver.get_window_store("per-ten").put("w", 5, 30)
        assert driver.get_timestamped_window_store("per-ten").fetch("w", 30) == ps.ValueAndTimestamp(5, 77)

    def test_a_timestamp_where_there_are_none_is_refused(self, driver: ps.TopologyTestDriver) -> None:
        stamped: Any = ps.ValueAndTimestamp(5, 1)
        with pytest.raises(TypeError, match="put the value alone, or get the store with get_timestamped_key_value"):
            driver.get_key_value_store("counts").put("k", stamped)
