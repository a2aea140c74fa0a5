"""Both kinds of key-value stores agree with a dict, in all events of their task's life."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from penstock.common.errors import UnknownQueryError
from penstock.common.serdes import Serdes
from penstock.state.builders import AnyStoreBuilder
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.key_value.store import KeyValueStateStore, KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder
from penstock.state.queries import (
    CountQuery,
    KeyQuery,
    KeysQuery,
    PrefixQuery,
    Query,
    QueryRow,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
)
from penstock.state.views import ValueAndTimestamp
from penstock.state.with_headers.views import ValueTimestampHeaders
from tests.state.contexts import a_context
from tests.state.store_machine import NAME, Logged, StoreMachine, can_change
from tests.tiers import examples

KEYS = ("", "a", "ab", "b", "\x00", "ÿ")
VALUES = st.none() | st.sampled_from(["", "x", "yy"])
TIMES = st.integers(min_value=0, max_value=2**40)

Rows = dict[str, tuple[str, int]]


class PlainMachine(StoreMachine):
    timestamped = False

    def builder(self, persistent: bool, caching: bool) -> AnyStoreBuilder:
        return KeyValueStoreBuilder(NAME, Serdes.string(), Serdes.string(), persistent, caching)

    def model_of(self, changelog: Sequence[Logged]) -> Rows:
        rows: Rows = {}
        for key, value, timestamp in changelog:
            rows.pop(key.decode(), None)
            if value is not None:
                rows[key.decode()] = (value.decode(), timestamp)
        return rows

    @precondition(can_change)
    @rule(updates=st.lists(st.tuples(st.sampled_from(KEYS), VALUES, TIMES), min_size=1, max_size=5))
    def put(self, updates: list[tuple[str, str | None, int]]) -> None:
        for update in updates:
            self.put_one(*update)

    def put_one(self, key: str, value: str | None, timestamp: int) -> None:
        self.now = timestamp
        self.view.put(key, ValueAndTimestamp(value, timestamp) if self.timestamped and value is not None else value)
        self.latest.pop(key, None)
        if value is not None:
            self.latest[key] = (value, timestamp)

    @precondition(can_change)
    @rule(key=st.sampled_from(KEYS), timestamp=TIMES)
    def delete(self, key: str, timestamp: int) -> None:
        self.now = timestamp
        assert self.view.delete(key) == self.seen(self.latest.pop(key, None))

    def seen(self, row: tuple[str, int] | None) -> object:
        """Returns what a processor sees of a row."""
        return None if row is None else ValueAndTimestamp(*row) if self.timestamped else row[0]

    def found(self, model: Rows, key: str) -> QueryRow:
        """Returns the row that a query finds."""
        return QueryRow(key.encode(), model[key][0], model[key][1] if self.timestamped else None)

    def assert_shows(self, model: Rows, committed: bool) -> None:
        rows = [self.found(model, key) for key in sorted(model, key=str.encode)]
        for page in (1, 2, 10):
            assert self.asked(RangeQuery(), committed, page) == rows
            assert self.asked(RangeQuery(descending=True), committed, page) == rows[::-1]
            for prefix in (b"", b"a", b"ab", b"\xff"):
                begin = [row for row in rows if row.key.startswith(prefix)]
                assert self.asked(PrefixQuery(prefix), committed, page) == begin
                assert self.asked(PrefixQuery(prefix, descending=True), committed, page) == begin[::-1]
        between = [row for row in rows if b"a" <= row.key <= b"b"]
        assert self.asked(RangeQuery(b"a", b"b"), committed) == between
        assert self.asked(RangeQuery(b"a", b"b", descending=True), committed, 1) == between[::-1]
        asked = KeysQuery(tuple(sorted(key.encode() for key in [*KEYS, "nowhere"])))
        for page in (1, 10):
            assert self.asked(asked, committed, page) == rows
        for key in KEYS:
            expected = [self.found(model, key)] if key in model else []
            assert list(self.store.answer(KeyQuery(key.encode()), None, 1, committed)) == expected
            if committed:
                value, timestamp = self.store.changelog_record(key.encode())
                logged = [(row.value.encode(), row.timestamp or 0) for row in expected] or [(None, 0)]
                assert [(value, timestamp)] == logged
            else:
                assert self.view.get(key) == self.seen(model.get(key))
        if not committed:
            seen = [(row.key.decode(), self.seen(model[row.key.decode()])) for row in rows]
            assert list(self.view.all()) == seen
            assert list(self.view.reverse_all()) == seen[::-1]
            assert list(self.view.reverse_range("a", "b")) == [pair for pair in seen[::-1] if "a" <= pair[0] <= "b"]
        (counted,) = self.store.answer(CountQuery(), None, 1, committed)
        assert counted.value >= 0


class TimestampedMachine(PlainMachine):
    timestamped = True

    def builder(self, persistent: bool, caching: bool) -> AnyStoreBuilder:
        return TimestampedKeyValueStoreBuilder(NAME, Serdes.string(), Serdes.string(), persistent, caching)


TestPlain = PlainMachine.TestCase
TestTimestamped = TimestampedMachine.TestCase
TestPlain.settings = TestTimestamped.settings = settings(max_examples=examples(15), stateful_step_count=25)


def test_the_changelog_of_either_kind_is_compacted_whatever_is_kept_longer() -> None:
    for kind in (KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder):
        assert kind("store").changelog_config(86_400_000) == {"cleanup.policy": "compact"}


def test_either_kind_is_named_in_words() -> None:
    assert KeyValueStoreBuilder("store").kind == "key-value"
    assert TimestampedKeyValueStoreBuilder("store").kind == "timestamped key-value"


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_store_without_a_serde_cannot_be_opened(part: str) -> None:
    key, value = (None if each == part else Serdes.string() for each in ("key", "value"))
    builder = KeyValueStoreBuilder("store", key, value)
    with pytest.raises(ValueError, match=f"store store was not given a {part} serde"):
        builder.open(a_context(InMemoryTaskStores([builder]).store("store")))


def test_a_range_continues_inside_of_its_ends_also_behind_a_key_in_front_of_them() -> None:
    for kind in (KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder):
        builder = kind("store", Serdes.string(), Serdes.string())
        store = builder.open(a_context(InMemoryTaskStores([builder]).store("store")))
        assert isinstance(store, KeyValueStateStore)
        for key in KEYS:
            store.buffer.put(key.encode(), "value", 0, None)
        for after, expected in ((b"", [b"ab", b"b"]), (b"ab", [b"b"]), (b"b", [])):
            assert [row.key for row in store.answer(RangeQuery(b"ab", b"b"), after, 10, False)] == expected


def test_a_query_of_another_kind_is_refused_with_those_that_are_answered() -> None:
    builder = KeyValueStoreBuilder("store", Serdes.string(), Serdes.string())
    store = builder.open(a_context(InMemoryTaskStores([builder]).store("store")))
    with pytest.raises(
        UnknownQueryError, match=r"'store' does not answer Query; it answers: KeyQuery, KeysQuery, RangeQ"
    ):
        store.answer(Query(), None, 1, False)


@pytest.mark.parametrize("headers", [False, True])
def test_a_store_with_timestamps_answers_the_queries_that_ask_for_them(headers: bool) -> None:
    builder = TimestampedKeyValueStoreBuilder("store", Serdes.string(), Serdes.string(), headers=headers)
    store = builder.open(a_context(InMemoryTaskStores([builder]).store("store")))
    assert isinstance(store, KeyValueStateStore)
    view = store.view()
    for number, key in enumerate(("a", "b", "c")):
        view.put(key, ValueTimestampHeaders("x", number, ()) if headers else ValueAndTimestamp("x", number))
    rows = [QueryRow(key, "x", number) for number, key in enumerate((b"a", b"b", b"c"))]
    assert list(store.answer(TimestampedKeyQuery(b"b"), None, 1, False)) == rows[1:2]
    assert list(store.answer(TimestampedRangeQuery(b"b", None), None, 9, False)) == rows[1:]
    assert list(store.answer(TimestampedRangeQuery(descending=True), None, 9, False)) == rows[::-1]


@pytest.mark.parametrize("query", [TimestampedKeyQuery(b"a"), TimestampedRangeQuery()])
def test_a_store_without_timestamps_refuses_the_queries_that_ask_for_them(query: Query) -> None:
    builder = KeyValueStoreBuilder("store", Serdes.string(), Serdes.string())
    store = builder.open(a_context(InMemoryTaskStores([builder]).store("store")))
    with pytest.raises(UnknownQueryError, match=f"does not answer {type(query).__name__}; it answers: KeyQuery, "):
        store.answer(query, None, 1, False)
