"""Window and session stores in a processor, from the program to the changelog."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import penstock as ps

STRINGS = (ps.Serdes.string(), ps.Serdes.string())
MINUTE = 60_000


class CountPerMinute(ps.Processor[str, str, str, str]):
    """Counts each key by the minute, and forwards what this minute and the last one have."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context
        self.counts: ps.WindowStore[str, int] = context.get_state_store("counts")

    def process(self, record: ps.Record[str, str]) -> None:
        start = record.timestamp - record.timestamp % MINUTE
        self.counts.put(record.key, (self.counts.fetch(record.key, start) or 0) + 1, start)
        found = " ".join(f"{time}:{count}" for time, count in self.counts.fetch(record.key, start - MINUTE, start))
        self.context.forward(record.with_value(found))


class Visits(ps.Processor[str, str, str, str]):
    """Merges what lies within ten seconds."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context
        self.visits: ps.SessionStore[str, list[str]] = context.get_state_store("visits")

    def process(self, record: ps.Record[str, str]) -> None:
        now = record.timestamp
        start, end, pages = now, now, [record.value]
        for session, earlier in self.visits.find_sessions(record.key, now - 10_000, now + 10_000):
            start, end = min(start, session.window.start), max(end, session.window.end)
            pages = [*earlier, *pages]
            self.visits.remove(session)
        session = ps.Windowed(record.key, ps.Window(start, end))
        self.visits.put(session, pages)
        self.context.forward(ps.Record(str(session), "/".join(pages), now))


def counts(supplier: Any) -> ps.StoreBuilder[str, int]:
    return ps.Stores.window_store_builder(supplier, ps.Serdes.string(), ps.Serdes.long())


def driver_of(processor: Any, store: ps.StoreBuilder[Any, Any]) -> ps.TopologyTestDriver:
    builder = ps.StreamsBuilder()
    builder.add_state_store(store)
    lines = builder.stream("in", ps.Consumed.with_(*STRINGS))
    lines.process(processor, store.name).to("out", ps.Produced.with_(*STRINGS))
    return ps.TopologyTestDriver(builder.build())


@pytest.fixture(params=[ps.Stores.persistent_window_store, ps.Stores.in_memory_window_store], ids=["disk", "memory"])
def driver(request: pytest.FixtureRequest) -> Iterator[ps.TopologyTestDriver]:
    store = counts(request.param("counts", timedelta(minutes=5), timedelta(minutes=1)))
    with driver_of(CountPerMinute, store) as driver:
        yield driver


def test_a_processor_counts_by_the_minute(driver: ps.TopologyTestDriver) -> None:
    source = driver.create_input_topic("in", *STRINGS)
    for time in (0, 30_000, 60_000, 61_000, 20_000):
        source.pipe_input("ada", "x", timestamp_ms=time)
    assert driver.create_output_topic("out", *STRINGS).read_values_to_list() == [
        "0:1",
        "0:2",
        "0:2 60000:1",
        "0:2 60000:2",
        "0:3",
    ]


def test_the_driver_shows_the_store_and_its_changelog(driver: ps.TopologyTestDriver) -> None:
    driver.create_input_topic("in", *STRINGS).pipe_input("A", "x", timestamp_ms=MINUTE)
    store: ps.WindowStore[str, int] = driver.get_state_store("counts")
    assert list(store.all()) == [(ps.Windowed("A", ps.Window(MINUTE, 2 * MINUTE)), 1)]
    changelog = driver.create_output_topic("topology-test-driver-counts-changelog", ps.Serdes.bytes(), ps.Serdes.long())
    record = changelog.read_record()
    assert record.key == b"A" + MINUTE.to_bytes(8, "big") + bytes(4)
    assert (record.value, record.timestamp) == (1, MINUTE)


def test_a_record_that_comes_too_late_is_counted_as_dropped(driver: ps.TopologyTestDriver) -> None:
    source = driver.create_input_topic("in", *STRINGS)
    source.pipe_input("ada", "x", timestamp_ms=60 * MINUTE)
    source.pipe_input("ada", "x", timestamp_ms=0)
    assert driver.metrics().dropped_records_total == 1
    assert driver.create_output_topic("out", *STRINGS).read_values_to_list() == ["3600000:1", ""]


def test_a_processor_keeps_sessions() -> None:
    supplier = ps.Stores.persistent_session_store("visits", timedelta(hours=1))
    store = ps.Stores.session_store_builder(supplier, ps.Serdes.string(), ps.Serdes.json(list[str]))
    with driver_of(Visits, store) as driver:
        source = driver.create_input_topic("in", *STRINGS)
        for page, time in (("a", 0), ("b", 20_000), ("c", 10_000), ("d", 40_000)):
            source.pipe_input("ada", page, timestamp_ms=time)
        found = [(each.key, each.value) for each in driver.create_output_topic("out", *STRINGS).read_records_to_list()]
        assert found == [
            ("[ada@0/0]", "a"),
            ("[ada@20000/20000]", "b"),
            ("[ada@0/20000]", "b/a/c"),
            ("[ada@40000/40000]", "d"),
        ]


class ChangesWhatItGot(ps.Processor[str, str, str, str]):
    """Breaks the first rule of user functions, by the reading that it is made for."""

    read: Any

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.store = context.get_state_store("kept")

    def process(self, record: ps.Record[str, str]) -> None:
        type(self).read(self.store).append("more")


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.fetch("k", 0),
        lambda store: next(store.fetch("k", 0, 10))[1],
        lambda store: next(store.backward_fetch("k", "k", 0, 10))[1],
        lambda store: next(store.fetch_all(0, 10))[1],
        lambda store: next(store.backward_fetch_all(0, 10))[1],
        lambda store: next(store.all())[1],
        lambda store: next(store.backward_all())[1],
    ],
)
def test_a_value_that_is_changed_in_a_window_store_is_found(read: Any) -> None:
    processor = type("Changing", (ChangesWhatItGot,), {"read": staticmethod(read)})
    supplier = ps.Stores.in_memory_window_store("kept", 100, 10)
    store = ps.Stores.window_store_builder(supplier, ps.Serdes.string(), ps.Serdes.json(list[str]))
    with driver_of(processor, store) as driver:
        driver.get_state_store("kept").put("k", ["v"], 0)
        with pytest.raises(ps.RuleBrokenError, match="a value that it got from store kept"):
            driver.create_input_topic("in", *STRINGS).pipe_input("k", "x", timestamp_ms=0)


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.fetch_session("k", 0, 5),
        lambda store: next(store.fetch("k"))[1],
        lambda store: next(store.backward_fetch("k", "k"))[1],
        lambda store: next(store.find_sessions("k", 0, 10))[1],
        lambda store: next(store.backward_find_sessions("k", 0, 10))[1],
    ],
)
def test_a_value_that_is_changed_in_a_session_store_is_found(read: Any) -> None:
    processor = type("Changing", (ChangesWhatItGot,), {"read": staticmethod(read)})
    supplier = ps.Stores.in_memory_session_store("kept", 100)
    store = ps.Stores.session_store_builder(supplier, ps.Serdes.string(), ps.Serdes.json(list[str]))
    with driver_of(processor, store) as driver:
        driver.get_state_store("kept").put(ps.Windowed("k", ps.Window(0, 5)), ["v"])
        with pytest.raises(ps.RuleBrokenError, match="a value that it got from store kept"):
            driver.create_input_topic("in", *STRINGS).pipe_input("k", "x", timestamp_ms=0)
