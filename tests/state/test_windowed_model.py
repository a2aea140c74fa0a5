"""Window and session stores against their model: any changes, commits, refused commits, crashes and restores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.state.windowed.queries import SessionQuery, SessionRangeQuery, WindowKeyQuery, WindowRangeQuery
from tests.state.windowed_model import Shape, until
from tests.state.windowed_rig import Rig
from tests.tiers import examples

pytestmark = pytest.mark.submission

keys = st.sampled_from(["a", "a\0", "ab", "é"])
bounds = st.none() | keys
values = st.sampled_from(["x", "y", "zz", "w", None])
retentions = st.sampled_from([500_000, 200_001, 120_000, 30_000, 1, 0])
sizes = st.integers(1, 4)
moments = st.tuples(st.integers(-6, 1), st.integers(-1, 1))
"""Steps of time away from now, and ms beside."""
# Many at once, so that there is something to read, commit or lose.
puts = st.lists(st.tuples(keys, moments, moments, values), min_size=3, max_size=12)


class WindowedStores(RuleBasedStateMachine):
    """One store in RocksDB and in memory alike. Time moves in steps; the times of puts lie around it."""

    rigs: list[Rig]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.rigs = []
        self.now = 0
        self.open: list[tuple[Iterator[Any], list[Any]]] = []

    def begin(self, shape: Shape) -> None:
        self.shape = shape
        self.rigs = [Rig(shape, Path(self.folder.name)), Rig(shape, None)]

    def teardown(self) -> None:
        for rig in self.rigs:
            rig.check_written()
            rig.close()
        self.folder.cleanup()

    @property
    def step_ms(self) -> int:
        return max(self.shape.retention_ms // 4, 15_000)

    def at(self, moment: tuple[int, int]) -> int:
        steps, beside = moment
        return max(self.now + steps * self.step_ms + beside, 0)

    def time(self, data: st.DataObject) -> int:
        return self.at(data.draw(moments))

    def times(self, data: st.DataObject) -> tuple[int, int]:
        open_end = st.sampled_from([(0, 1 << 62), (-5, 1 << 62)])
        return data.draw(open_end) if data.draw(st.booleans()) else (self.time(data), self.time(data))

    # ---- changes ----

    def time_passes(self, steps: int) -> None:
        self.now += steps * self.step_ms

    @rule(puts=puts)
    def put(self, puts: list[tuple[str, tuple[int, int], tuple[int, int], str | None]]) -> None:
        for key, one, other, value in puts:
            start, end = sorted((self.at(one), self.at(other)))
            for rig in self.rigs:
                rig.put(key, end, start, value, timestamp=self.now)
            self.now += 1

    @rule(puts=puts, steps=st.integers(1, 5))
    def put_later(self, puts: list[tuple[str, tuple[int, int], tuple[int, int], str | None]], steps: int) -> None:
        self.time_passes(steps)
        self.put(puts)

    @rule()
    def commit(self) -> None:
        for rig in self.rigs:
            rig.commit()
            rig.check_written()

    @rule(puts=puts, steps=st.integers(0, 5), refused=st.booleans())
    def commit_beside_records(
        self, puts: list[tuple[str, tuple[int, int], tuple[int, int], str | None]], steps: int, refused: bool
    ) -> None:
        self.time_passes(steps)
        if refused:
            self.open.clear()
        times = [sorted((self.at(one), self.at(other))) for _, one, other, _ in puts]
        for rig in self.rigs:
            changes = [
                partial(rig.put, key, end, start, value, timestamp=self.now + number)
                for number, ((key, _, _, value), (start, end)) in enumerate(zip(puts, times, strict=True))
            ]
            rig.commit(refused, changes)
            rig.check_written()
        self.now += len(puts)

    @rule()
    def a_commit_is_refused(self) -> None:
        self.open.clear()
        for rig in self.rigs:
            rig.commit(refused=True)

    @rule(batch_size=sizes, wiped=st.booleans(), gathered=st.booleans())
    def crash(self, batch_size: int, wiped: bool, gathered: bool) -> None:
        self.open.clear()
        for rig in self.rigs:
            rig.crash(batch_size, wiped, gathered)

    @rule()
    def memory_is_needed(self) -> None:
        for rig in self.rigs:
            rig.store.drop_unused()

    # ---- reading ----

    def look(self, rig: Rig, found: Iterator[Any], expected: list[Any], later: bool, backward: bool) -> None:
        if backward:
            expected.reverse()
        if later:
            self.open.append((found, expected))
        else:
            assert list(found) == expected

    @rule()
    def iterators_see_the_store_as_it_was(self) -> None:
        for found, expected in self.open:
            assert list(found) == expected
        self.open.clear()

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        for rig in self.rigs:
            rig.check_everything()


class WindowStores(WindowedStores):
    @initialize(
        retention_ms=retentions,
        kind=st.sampled_from(["plain", "timestamped", "duplicates"]),
        caching=st.booleans(),
    )
    def begin_windows(self, retention_ms: int, kind: str, caching: bool) -> None:
        duplicates = kind == "duplicates"
        self.begin(Shape(retention_ms, caching and not duplicates, False, kind == "timestamped", duplicates))

    @rule(data=st.data(), key=keys)
    def fetch(self, data: st.DataObject, key: str) -> None:
        if self.shape.retain_duplicates:
            return
        time = self.time(data)
        for rig in self.rigs:
            found = dict(rig.model.of_key(key, time, time))
            assert rig.view.fetch(key, time) == rig.value(next(iter(found.values()), None))

    @rule(data=st.data(), key=keys, later=st.booleans(), backward=st.booleans())
    def fetch_of_a_key(self, data: st.DataObject, key: str, later: bool, backward: bool) -> None:
        times = self.times(data)
        for rig in self.rigs:
            fetch = rig.view.backward_fetch if backward else rig.view.fetch
            expected = [(row.time, rig.value(put)) for row, put in rig.model.of_key(key, *times)]
            self.look(rig, fetch(key, *times), expected, later, backward)

    @rule(data=st.data(), key_from=bounds, key_to=bounds, later=st.booleans(), backward=st.booleans())
    def fetch_of_keys(
        self, data: st.DataObject, key_from: str | None, key_to: str | None, later: bool, backward: bool
    ) -> None:
        times = self.times(data)
        for rig in self.rigs:
            fetch = rig.view.backward_fetch if backward else rig.view.fetch
            expected = rig.windowed(rig.model.of_keys(key_from, key_to, *times))
            self.look(rig, fetch(key_from, key_to, *times), expected, later, backward)

    @rule(data=st.data(), later=st.booleans(), backward=st.booleans())
    def fetch_all(self, data: st.DataObject, later: bool, backward: bool) -> None:
        times = self.times(data)
        for rig in self.rigs:
            fetch = rig.view.backward_fetch_all if backward else rig.view.fetch_all
            self.look(rig, fetch(*times), rig.windowed(rig.model.of_keys(None, None, *times)), later, backward)

    @rule(
        data=st.data(),
        key=keys,
        key_from=bounds,
        key_to=bounds,
        page=sizes,
        committed=st.booleans(),
        back=st.booleans(),
    )
    def queries(
        self,
        data: st.DataObject,
        key: str,
        key_from: str | None,
        key_to: str | None,
        page: int,
        committed: bool,
        back: bool,
    ) -> None:
        times, bytes_of = self.times(data), (key_from and key_from.encode(), key_to and key_to.encode())
        for rig in self.rigs:
            expected = rig.query_rows(rig.model.of_key(key, *times, committed), back)
            assert rig.answers(WindowKeyQuery(key.encode(), *times, descending=back), page, committed) == expected
            expected = rig.query_rows(rig.model.by_changelog_key(key_from, key_to, *times, committed), back)
            assert rig.answers(WindowRangeQuery(*times, *bytes_of, descending=back), page, committed) == expected


class SessionStores(WindowedStores):
    @initialize(retention_ms=retentions, caching=st.booleans())
    def begin_sessions(self, retention_ms: int, caching: bool) -> None:
        self.begin(Shape(retention_ms, caching, sessions=True))

    @rule(data=st.data(), key=keys)
    def remove(self, data: st.DataObject, key: str) -> None:
        start, end = sorted((self.time(data), self.time(data)))
        for rig in self.rigs:
            rig.remove(key, end, start, timestamp=self.now)

    @rule(data=st.data(), key=keys)
    def remove_one_that_is_there(self, data: st.DataObject, key: str) -> None:
        for rig in self.rigs:
            if rows := rig.model.of_key(key, 0, 1 << 62):
                rig.remove(key, rows[0][0].time, rows[0][0].rest, timestamp=self.now)

    @rule(data=st.data(), key=keys)
    def fetch_session(self, data: st.DataObject, key: str) -> None:
        start, end = sorted((self.time(data), self.time(data)))
        for rig in self.rigs:
            found = until(start, rig.model.of_key(key, end, end))
            expected = next((put for row, put in found if row.rest == start), None)
            assert rig.view.fetch_session(key, start, end) == rig.value(expected)

    @rule(data=st.data(), key=keys, later=st.booleans(), backward=st.booleans())
    def find_sessions(self, data: st.DataObject, key: str, later: bool, backward: bool) -> None:
        end, start = self.times(data)
        for rig in self.rigs:
            find = rig.view.backward_find_sessions if backward else rig.view.find_sessions
            expected = rig.windowed(until(start, rig.model.of_key(key, end, 1 << 62)))
            self.look(rig, find(key, end, start), expected, later, backward)

    @rule(data=st.data(), key_from=bounds, key_to=bounds, later=st.booleans(), backward=st.booleans())
    def find_sessions_of_keys(
        self, data: st.DataObject, key_from: str | None, key_to: str | None, later: bool, backward: bool
    ) -> None:
        end, start = self.times(data)
        for rig in self.rigs:
            find = rig.view.backward_find_sessions if backward else rig.view.find_sessions
            expected = rig.windowed(until(start, rig.model.of_keys(key_from, key_to, end, 1 << 62)))
            self.look(rig, find(key_from, key_to, end, start), expected, later, backward)

    @rule(key=keys, key_from=bounds, key_to=bounds, backward=st.booleans())
    def fetch(self, key: str, key_from: str | None, key_to: str | None, backward: bool) -> None:
        for rig in self.rigs:
            fetch = rig.view.backward_fetch if backward else rig.view.fetch
            one = rig.windowed(rig.model.of_key(key, 0, 1 << 62))
            self.look(rig, fetch(key), one, False, backward)
            several = rig.windowed(rig.model.of_keys(key_from, key_to, 0, 1 << 62))
            self.look(rig, fetch(key_from, key_to), several, False, backward)

    @rule(
        data=st.data(),
        key=keys,
        key_from=bounds,
        key_to=bounds,
        page=sizes,
        committed=st.booleans(),
        back=st.booleans(),
    )
    def queries(
        self,
        data: st.DataObject,
        key: str,
        key_from: str | None,
        key_to: str | None,
        page: int,
        committed: bool,
        back: bool,
    ) -> None:
        (end, start), bytes_of = self.times(data), (key_from and key_from.encode(), key_to and key_to.encode())
        for rig in self.rigs:
            expected = rig.query_rows(rig.model.of_key(key, 0, 1 << 62, committed), back)
            assert rig.answers(SessionQuery(key.encode(), descending=back), page, committed) == expected
            expected = rig.query_rows(until(start, rig.model.of_key(key, end, 1 << 62, committed)), back)
            assert rig.answers(SessionQuery(key.encode(), end, start, descending=back), page, committed) == expected
            found = rig.model.by_changelog_key(key_from, key_to, end, 1 << 62, committed)
            query = SessionRangeQuery(end, start, *bytes_of, descending=back)
            assert rig.answers(query, page, committed) == rig.query_rows(until(start, found), back)


TestWindowStores = WindowStores.TestCase
TestSessionStores = SessionStores.TestCase
TestWindowStores.settings = TestSessionStores.settings = settings(
    max_examples=examples(30),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
