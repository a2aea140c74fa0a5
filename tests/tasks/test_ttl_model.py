"""``with_ttl`` against a model, on random records, over restarts, in memory and in RocksDB."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.parity.restarts import RestartingDriver
from tests.tasks.bench import STRINGS
from tests.tasks.expiring_tables import ROWS, TEXT, TTL, Build, Idle, Shown, counts, table
from tests.tiers import examples


class Event(NamedTuple):
    topic: str
    key: str
    value: str | None
    timestamp: int


class Model:
    """Rows by key, expired by looking at all of them."""

    def __init__(self, ttl: int, counting: bool) -> None:
        self.ttl, self.counting = ttl, counting
        self.rows: dict[str, tuple[Any, int]] = {}
        self.now = -1
        self.shown: list[Shown] = []
        self.dropped = 0

    def take(self, event: Event) -> None:
        if event.timestamp > self.now:
            self.now = event.timestamp
            gone = sorted((time, key) for key, (_, time) in self.rows.items() if time + self.ttl <= self.now)
            for time, key in gone:
                del self.rows[key]
                self.shown.append((key, None, time + self.ttl))
        if event.topic != "in":
            return
        key, value, time = event.key, event.value, event.timestamp
        if self.counting and value is None:
            self.dropped += 1
        elif value is None:
            self.rows.pop(key, None)
            self.shown.append((key, None, time))
        elif time + self.ttl <= self.now:
            self.dropped += 1
        else:
            if self.counting:
                old, before = self.rows.get(key, (0, -1))
                value, time = str(int(old) + 1), max(time, before)
            self.rows[key] = value, time
            self.shown.append((key, value, time))


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[Event], set[int], bool]:
    ttl = draw(st.sampled_from([1, 3, TTL, 1000]))
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["in", "in", "in", "other"]),
                st.sampled_from(["a", "b", "a\0", "r", "t"]),
                st.sampled_from(["x", "y", "", None]),
                st.integers(-6, 5),
                st.integers(-1, 1),
            ),
            max_size=40,
        )
    )
    now, events = 0, []
    for topic, key, value, quarters, ms in steps:
        timestamp = max(now + quarters * max(ttl // 4, 1) + ms, 0)
        now = max(now, timestamp)
        events.append(Event(topic, key, value, timestamp))
    return ttl, events, draw(st.sets(st.integers(0, 40), max_size=3)), draw(st.booleans())


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "rocksdb"])
@pytest.mark.parametrize("build", [table, counts], ids=lambda each: each.__name__)
def test_rows_expire_as_in_the_model_over_any_restarts(build: Build, on_disk: bool) -> None:
    @settings(max_examples=examples(25 if on_disk else 125))
    @given(runs())
    def check(run: tuple[int, list[Event], set[int], bool]) -> None:
        ttl, events, restarts, caching = run
        model = Model(ttl, build is counts)
        builder = ps.StreamsBuilder()
        how = ROWS.with_ttl(ttl)
        build(builder, how if caching else how.with_caching_disabled()).to("out", ps.Produced.with_(TEXT, TEXT))
        builder.stream("other", STRINGS).merge(builder.stream("in2", STRINGS)).process(Idle, "rows")  # one task for all
        with tempfile.TemporaryDirectory() as folder:
            driver = RestartingDriver(builder.build(), {}, Path(folder) if on_disk else None)
            with driver:
                for number, event in enumerate(events):
                    if number in restarts:
                        driver._state = Path(folder) / str(number) if on_disk else None
                        driver.restart()
                    value = None if event.value is None else event.value.encode()
                    driver.pipe(event.topic, event.key.encode(), value, event.timestamp)
                    model.take(event)
                    store = driver.get_state_store("rows")
                    found = {key: (str(value), time) for key, (value, time) in store.all()}
                    assert found == {key: (str(value), time) for key, (value, time) in model.rows.items()}
                out = driver.create_output_topic("out", TEXT, TEXT).read_records_to_list()
                shown = [(each.key or "", each.value, each.timestamp) for each in out]
        if caching:
            # A cache sends a key once, and its deletion only if the value that was deleted had been sent.
            assert [each for each in shown if each[1] is not None] == [
                each for each in model.shown if each[1] is not None
            ]
        else:
            assert shown == model.shown

    check()
