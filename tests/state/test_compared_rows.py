"""The rows of a store that an audit compares: what two tasks over the same records may have differently is left out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import penstock as ps
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import StateStore, StateStoreContext
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.key_value.store import SubscriptionStoreBuilder

STRING = ps.Serdes.string()
MINUTE = 60_000


class Opened:
    """A store over rows in memory, of which each commit is a call of :meth:`commit`."""

    def __init__(self, builder: AnyStoreBuilder, now: int = 0) -> None:
        self.builder = builder
        self.rows = InMemoryTaskStores([builder])
        self.now = now
        committed = self.rows.store(builder.name)
        self.store: StateStore = builder.open(StateStoreContext(committed, None, False, lambda: self.now, lambda: None))
        self.view: Any = self.store.view()

    def commit(self) -> None:
        batch = self.rows.new_batch()
        for _ in self.store.flush(batch):
            pass
        self.rows.write(batch, {})
        self.store.batch_written()

    def compared(self) -> list[tuple[bytes, bytes]]:
        return list(self.builder.compared_rows(self.rows.store(self.builder.name)))

    def all(self) -> list[tuple[bytes, bytes]]:
        return list(self.rows.store(self.builder.name).scan(None, None))


def test_of_a_table_all_rows_are_compared() -> None:
    table = Opened(ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("t"), STRING, STRING))
    table.view.put("a", "1")
    table.commit()
    assert table.compared() == table.all() == [(b"a", b"1")]


@pytest.mark.parametrize("store_format", ["DEFAULT", "HEADERS"])
def test_subscriptions_are_compared_without_the_instruction_that_depends_on_caches(store_format: str) -> None:
    builder = SubscriptionStoreBuilder("s", ps.Serdes.bytes(), ps.Serdes.bytes(), of_dsl=True).in_format(store_format)
    answer, if_there, other = Opened(builder), Opened(builder), Opened(builder)
    for opened, subscription in ((answer, b"\1\2hash-key"), (if_there, b"\1\3hash-key"), (other, b"\1\2else-key")):
        opened.store.buffer.put(b"row", subscription, 5, None)  # type: ignore[attr-defined]
        opened.commit()
    assert answer.all() != if_there.all()
    assert answer.compared() == if_there.compared() != other.compared()


@pytest.mark.parametrize("store_format", ["DEFAULT", "HEADERS"])
def test_damaged_subscriptions_are_compared_as_they_are(store_format: str) -> None:
    builder = SubscriptionStoreBuilder("s", ps.Serdes.bytes(), ps.Serdes.bytes(), of_dsl=True).in_format(store_format)
    opened = Opened(builder)
    whole = b"\0" * 9 + b"\1\2hash-key"
    damaged = {b"%d" % size: whole[:size] for size in range(11)}
    batch = opened.rows.new_batch()
    for key, row in damaged.items():
        batch.put("s", key, row)
    opened.rows.write(batch, {})
    rows = dict(opened.compared())
    assert {key: row for key, row in rows.items() if len(row) < 10} == {
        key: row for key, row in damaged.items() if len(row) < 10
    }
    assert len(set(rows.values())) == len(damaged)


def test_windows_that_have_expired_are_left_out_whenever_the_last_commit_was() -> None:
    windows = ps.Stores.window_store_builder(
        ps.Stores.persistent_window_store("w", timedelta(minutes=4), timedelta(minutes=1), False), STRING, STRING
    )
    often, once = Opened(windows), Opened(windows)
    for start in (0, MINUTE, 2 * MINUTE + 1, 6 * MINUTE):
        for each in (often, once):
            each.view.put("a", "1", start)
        often.commit()
    once.commit()
    assert often.compared() == once.compared()
    (first, _), (second, _) = often.compared()
    assert first[8:-12] == second[8:-12] == b"a"
    assert len(often.all()) > 2, "the note of the stream time is a row, too"


def test_a_session_is_compared_until_the_retention_has_passed_since_its_end() -> None:
    sessions = Opened(
        ps.Stores.session_store_builder(ps.Stores.persistent_session_store("s", timedelta(minutes=4)), STRING, STRING)
    )
    for start, end in ((0, MINUTE), (2 * MINUTE, 3 * MINUTE)):
        sessions.view.put(ps.Windowed("a", ps.Window(start, end)), "1")
    sessions.commit()
    assert len(sessions.compared()) == 2
    sessions.view.put(ps.Windowed("b", ps.Window(5 * MINUTE, 5 * MINUTE)), "1")
    sessions.commit()
    assert len(sessions.compared()) == 2, "the first one has expired; its segment has not"
    assert len(sessions.all()) == 4


def test_the_index_of_a_ttl_is_left_out() -> None:
    table = Opened(
        ps.Stores.timestamped_key_value_store_builder(
            ps.Stores.persistent_key_value_store("t"), STRING, STRING
        ).with_ttl(timedelta(minutes=1)),
        now=5,
    )
    table.store.may_expire(5)  # type: ignore[attr-defined]
    table.view.put("a", ps.ValueAndTimestamp("1", 5))
    table.commit()
    assert len(table.all()) == 2
    assert [key for key, _ in table.compared()] == [b"ra"]


def test_of_versions_all_but_the_note_of_the_stream_time_is_compared() -> None:
    versions = Opened(
        ps.Stores.versioned_key_value_store_builder(
            ps.Stores.persistent_versioned_key_value_store("v", timedelta(minutes=5)), STRING, STRING
        )
    )
    versions.view.put("a", "1", 1)
    versions.view.put("a", "2", 2)
    versions.commit()
    assert len(versions.compared()) == 2
    assert len(versions.all()) == 3
