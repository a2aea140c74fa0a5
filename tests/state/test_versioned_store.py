"""Versioned stores against their model: any puts, commits, refused commits, crashes and restores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from penstock.common.errors import SerializationError, TopologyError, UnknownQueryError
from penstock.common.serdes import Serdes
from penstock.state.builders import AnyStoreBuilder
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.queries import KeyQuery, QueryRow
from penstock.state.stores import Stores
from penstock.state.versioned.history import HISTORY, History
from penstock.state.versioned.queries import MultiVersionedKeyQuery, VersionedKeyQuery
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder
from penstock.state.versioned.views import VersionedKeyValueStore, VersionedRecord
from tests.state.contexts import a_context
from tests.state.store_machine import NAME, Logged, StoreMachine, can_change
from tests.state.versioned_model import NOT_PUT, Model
from tests.tiers import examples

KEYS = ("", "a", "a\0", "b")
STRINGS = Serdes.string(), Serdes.string()

# (history, segment): within one segment, over some, over many, and no history at all.
SPANS = [(40, 1000), (40, 15), (40, 3), (7, 40), (0, 10), (0, 1)]
BACK = st.integers(-50, 12)
"""A time, from the present one on. Mostly what has been before, for equal times are what is hard."""
PUTS = st.lists(st.tuples(st.sampled_from(KEYS), BACK, st.sampled_from(["x", "y", "z", None])), min_size=1, max_size=9)


class VersionedMachine(StoreMachine):
    has_caching = False

    @initialize(persistent=st.booleans(), spans=st.sampled_from(SPANS))
    def begin_with(self, persistent: bool, spans: tuple[int, int]) -> None:
        self.spans = spans
        StoreMachine.begin(self, persistent, False)

    @initialize()
    def begin(self) -> None:
        """Nothing."""

    def builder(self, persistent: bool, caching: bool) -> AnyStoreBuilder:
        history_ms, segment_ms = self.spans
        return VersionedKeyValueStoreBuilder(
            NAME, *STRINGS, persistent, history_retention_ms=history_ms, segment_interval_ms=segment_ms
        )

    def model_of(self, changelog: Sequence[Logged]) -> Model:
        model = Model(self.spans[0])
        for key, value, timestamp in changelog:
            model.put(key.decode(), None if value is None else value.decode(), timestamp)
        return model

    @precondition(can_change)
    @rule(puts=PUTS)
    def put(self, puts: list[tuple[str, int, str | None]]) -> None:
        for key, back, value in puts:
            timestamp, dropped = max(self.latest.stream_time + back, 0), self.dropped
            put = self.view.put(key, value, timestamp)
            assert put == self.latest.put(key, value, timestamp)
            assert self.dropped - dropped == (put == NOT_PUT)

    @precondition(can_change)
    @rule(key=st.sampled_from(KEYS), back=BACK)
    def delete(self, key: str, back: int) -> None:
        timestamp = max(self.latest.stream_time + back, 0)
        before = self.latest.as_of(key, timestamp)
        expected = None if self.latest.put(key, None, timestamp) == NOT_PUT else before
        assert self.view.delete(key, timestamp) == expected

    def assert_shows(self, model: Model, committed: bool) -> None:
        now = model.stream_time
        times = sorted({max(now - back, 0) for back in (-1, 0, 1, 2, 5, 9, 17, 30, 40, 41)})
        for key in KEYS:
            for time in (None, *times):
                expected = model.get(key) if time is None else model.as_of(key, time)
                rows = [] if expected is None else [QueryRow(key.encode(), expected, expected[1])]
                assert list(self.store.answer(VersionedKeyQuery(key.encode(), time), None, 1, committed)) == rows
                if not committed:
                    assert (self.view.get(key) if time is None else self.view.get(key, time)) == expected
            for back, until in ((now, -5), (20, 0), (40, 3), (60, 45), (0, 1)):
                begin, end = now - back, now - until
                between = sorted(
                    {each for time in range(max(begin, 0), end + 1) if (each := model.as_of(key, time)) is not None},
                    key=lambda version: version[1],
                )
                self.assert_history(key, begin, end, between, committed)
            if committed:
                latest = model.get(key)
                logged = (None, 0) if latest is None else (latest[0].encode(), latest[1])
                assert self.store.changelog_record(key.encode()) == logged

    def assert_history(
        self, key: str, begin: int, end: int, expected: list[tuple[str, int, int | None]], committed: bool
    ) -> None:
        """All versions of these times, on pages of one and of all."""
        for descending in (False, True):
            query = MultiVersionedKeyQuery(key.encode(), begin, end, descending=descending)
            whole = list(self.store.answer(query, None, 100, committed))
            assert [row.value for row in whole] == expected[:: -1 if descending else 1]
            pages: list[QueryRow] = []
            while page := list(self.store.answer(query, pages[-1].key if pages else None, 1, committed)):
                pages += page
            assert pages == whole


TestVersioned = VersionedMachine.TestCase
TestVersioned.settings = settings(max_examples=examples(15), stateful_step_count=20)


def a_store(history_ms: int = 100, logged: list[Any] | None = None) -> VersionedKeyValueStore[str, str]:
    builder = Stores.versioned_key_value_store_builder(
        Stores.in_memory_versioned_key_value_store(NAME, history_ms), *STRINGS
    )
    log = None if logged is None else lambda *record: logged.append(record)
    store: VersionedKeyValueStore[str, str] = builder.open(
        a_context(InMemoryTaskStores([builder]).store(NAME), log)
    ).view()
    return store


def test_a_put_returns_until_when_it_is_valid() -> None:
    store = a_store()
    assert store.put("k", "a", 50) == store.PUT_RETURN_CODE_VALID_TO_UNDEFINED == -1
    assert store.put("k", "b", 30) == 50
    assert store.put("k", None, 40) == 50
    assert store.put("k", "c", 200) == -1
    assert store.put("k", "d", 99) == store.PUT_RETURN_CODE_NOT_PUT == -(2**63)
    assert store.get("k") == VersionedRecord("c", 200)
    assert store.get("k", 199) == VersionedRecord("a", 50, 200)
    assert store.get("k", 99) is None, "longer ago than history is kept"
    assert store.get("other", 150) is None


def test_the_latest_version_never_expires() -> None:
    store = a_store()
    store.put("old", "a", 5)
    store.put("new", "b", 10_000)
    assert store.get("old") == store.get("old", 5) == VersionedRecord("a", 5)
    assert store.get("old", 4) is None


def test_a_delete_returns_what_was_valid_before() -> None:
    store = a_store()
    store.put("k", "a", 50)
    assert store.delete("k", 70) == VersionedRecord("a", 50)
    assert store.get("k") is None
    assert store.get("k", 60) == VersionedRecord("a", 50, 70)
    store.put("k", "b", 500)
    assert store.delete("k", 60) is None, "too late"


def test_the_changelog_hears_of_what_is_too_late_as_in_kafka_streams() -> None:
    logged: list[Any] = []
    store = a_store(10, logged)
    store.put("k", "a", 50)
    store.put("k", "b", 5)
    store.delete("k", 6)
    assert logged == [(b"k", b"a", 50), (b"k", b"b", 5), (b"k", None, 6)]


def test_a_version_that_cannot_be_put_is_refused_in_words() -> None:
    store = a_store()
    with pytest.raises(ValueError, match="store store: a version's timestamp may not be negative: -1 ms"):
        store.put("k", "a", -1)
    with pytest.raises(TypeError, match="timestamp must be whole milliseconds since 1970, an int, not"):
        store.put("k", "a", 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="as_of_timestamp must be whole milliseconds"):
        store.get("k", "now")  # type: ignore[arg-type]
    with pytest.raises(SerializationError, match="a key may not be None"):
        store.put(None, "a", 1)  # type: ignore[arg-type]
    with pytest.raises(SerializationError, match="store store: the value of key b'k' cannot be serialised"):
        store.put("k", 7, 1)  # type: ignore[arg-type]
    assert store.get("k") is None


def test_a_query_that_it_does_not_answer_names_the_one_that_it_does() -> None:
    builder = VersionedKeyValueStoreBuilder(NAME, *STRINGS)
    store = builder.open(a_context(InMemoryTaskStores([builder]).store(NAME)))
    with pytest.raises(UnknownQueryError, match="does not answer KeyQuery; it answers: VersionedKeyQuery, MultiV"):
        store.answer(KeyQuery(b"k"), None, 1, False)


def test_its_changelog_is_not_compacted_before_history_has_expired() -> None:
    builder: AnyStoreBuilder = VersionedKeyValueStoreBuilder(NAME, history_retention_ms=5_000)
    assert builder.changelog_config(7) == {"cleanup.policy": "compact", "min.compaction.lag.ms": "86405000"}
    assert builder.required_changelog_config(7) == {"min.compaction.lag.ms": "86405000"}
    endless: AnyStoreBuilder = VersionedKeyValueStoreBuilder(NAME, history_retention_ms=2**63 - 1)
    assert endless.required_changelog_config(7) == {"min.compaction.lag.ms": str(2**63 - 1)}


@pytest.mark.parametrize(
    ("history_ms", "segment_ms"),
    [
        *[(0, 2_000), (9_000, 3_000), (60_000, 20_000), (60_001, 20_000), (300_000, 60_000), (300_001, 60_000)],
        *[(3_600_000, 300_000), (3_600_001, 300_000), (86_400_000, 3_600_000)],
    ],
)
def test_segments_are_as_long_as_kafka_streams_makes_them(history_ms: int, segment_ms: int) -> None:
    assert Stores.persistent_versioned_key_value_store(NAME, history_ms).segment_interval_ms == segment_ms


def test_a_supplier_with_a_wrong_time_span_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="history_retention may not be negative"):
        Stores.persistent_versioned_key_value_store(NAME, -1)
    with pytest.raises(ValueError, match="store store: segment_interval must be at least 1 ms"):
        Stores.persistent_versioned_key_value_store(NAME, 10, 0)
    with pytest.raises(TopologyError, match="needs a supplier such as Stores"):
        Stores.versioned_key_value_store_builder("name", *STRINGS)  # type: ignore[arg-type]
    builder = Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store(NAME, 10, 5), *STRINGS
    )
    with pytest.raises(TopologyError, match="store store: versioned stores do not support caching"):
        builder.with_caching_enabled()
    assert builder.layout == "versioned, segments of 5 ms"


@pytest.mark.parametrize(
    ("history", "row"),
    [
        (
            History(30, [10, 20], [b"a", b"b"]),
            "000000000000001e000000000000000a000000000000001400000001000000000000000a000000016162",
        ),
        (History(30, [], []), "000000000000001e000000000000001e000000000000001effffffff"),
        (
            History(30, [10, 20], [b"", None]),
            "000000000000001e000000000000000a0000000000000014ffffffff000000000000000a00000000",
        ),
    ],
)
def test_a_row_of_history_has_kafka_streams_bytes(history: History, row: str) -> None:
    assert HISTORY.serialize(history).hex() == row
    assert HISTORY.deserialize(bytes.fromhex(row)) == history
