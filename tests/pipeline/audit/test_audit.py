"""Clean audits of live stores, and corrupted rows that are found, for each kind of store."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

import penstock as ps
from penstock.common.ids import TopicPartition
from tests.pipeline.audit.rig import Application, Corrupt

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
SECOND, MINUTE = 1_000, 60_000


def consumed() -> ps.Consumed[str, str]:
    return ps.Consumed.with_(STRING, STRING)


def word_count() -> ps.Topology:
    builder = ps.StreamsBuilder()
    (
        builder.stream("lines", consumed())
        .flat_map_values(str.split)
        .group_by(lambda _, word: word, ps.Grouped.with_(STRING, STRING))
        .count(ps.Materialized.as_("counts"))
    )
    return builder.build()


def keyed(store: str, row: bytes | None) -> Corrupt:
    """Gives the first row whose key contains the text ``store`` the value ``row``."""
    done: list[bytes] = []

    def corrupt(key: bytes, was: bytes) -> tuple[bytes, bytes | None] | None:
        if done or store.encode() not in key or key.startswith(b"\xff"):
            return None
        done.append(key)
        return key, row

    return corrupt


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_word_count_is_clean_and_a_wrong_count_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarantee: str
) -> None:
    app = Application(word_count(), tmp_path, ["lines"], processing_guarantee=guarantee)
    for number in range(300):
        app.send("lines", None, f"the fox and {number % 17}".encode(), number, number % 2)
    app.settle()
    report = app.audit(monkeypatch)
    assert report.is_clean
    (counts,) = report.stores
    assert (counts.store, counts.expected, counts.found, counts.different) == ("counts", 20, 20, 0)
    assert report.offsets == {TopicPartition("lines", 0): 150, TopicPartition("lines", 1): 150}
    assert report.read == {"lines": 300}

    wrong = b"\0\0\0\0\0\0\0\5" + LONG.serialize(7)
    report = app.audit(monkeypatch, {"counts": keyed("fox", wrong)})
    assert not report.is_clean
    assert report.stores[0].different == 1
    (found,) = report.differences
    assert (found.store, found.key, found.expected, found.found) == ("counts", "'fox'", "300 at 299", "7 at 5")
    assert found.task in report.behind_repartition


def test_a_row_that_is_missing_and_one_too_many_are_found_with_the_offsets_of_their_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", consumed()).group_by_key().count(ps.Materialized.as_("counts"))
    app = Application(builder.build(), tmp_path, ["in"])
    for number in range(40):
        app.send("in", "ab"[number % 2], b"x", number, 1)
    app.settle()
    report = app.audit(monkeypatch, {"counts": keyed("a", None)})
    (found,) = report.differences
    assert (found.key, found.expected, found.found) == ("'a'", "20 at 38", "no row")
    (origin,) = found.origins
    assert (origin.partition, origin.records, origin.last) == (TopicPartition("in", 1), 20, (30, 32, 34, 36, 38))

    report = app.audit(monkeypatch, {"counts": lambda key, row: (b"c", row) if key == b"a" else None})
    assert [(each.key, each.expected, each.found) for each in report.differences] == [
        ("'a'", "20 at 38", "no row"),
        ("'c'", "no row", "20 at 38"),
    ]


def windows() -> ps.Topology:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", consumed()).group_by_key()
    tumbling = ps.TimeWindows.of_size_with_no_grace(timedelta(seconds=10))
    grouped.windowed_by(tumbling).count(ps.Materialized.as_("windows").with_retention(timedelta(minutes=2)))
    gap = ps.SessionWindows.of_inactivity_gap_with_no_grace(timedelta(seconds=5))
    grouped.windowed_by(gap).count(ps.Materialized.as_("sessions").with_retention(timedelta(minutes=2)))
    return builder.build()


def test_windows_and_sessions_are_clean_whenever_they_were_committed_and_a_wrong_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Application(windows(), tmp_path, ["in"])
    chance, now = random.Random(5), 0
    for number in range(600):
        now += chance.choice((100, 900, 7_000))
        app.send("in", chance.choice("abc"), b"x", max(0, now - chance.choice((0, 0, 3_000, 90_000))), number % 2)
        if number % 100 == 0:
            app.settle()
    app.settle()
    report = app.audit(monkeypatch)
    assert report.is_clean, report.differences
    assert [(each.store, each.found > 10) for each in report.stores] == [("sessions", True), ("windows", True)]

    one = b"\0\0\0\0\0\0\0\7" + LONG.serialize(99)
    report = app.audit(monkeypatch, {"windows": last_row(one), "sessions": last_row(LONG.serialize(98))})
    session, window = sorted(report.differences, key=lambda each: each.store)
    assert window.found == "99 at 7"
    assert window.key.startswith("[")
    assert session.found.startswith("98")
    assert all(each.origins for each in report.differences)


def last_row(row: bytes) -> Corrupt:
    """Gives a row of the newest segment another value: it has not expired."""
    seen: list[bytes] = []

    def corrupt(key: bytes, was: bytes) -> tuple[bytes, bytes | None] | None:
        if key >= b"\xfe" or seen or int.from_bytes(key[:8], "big") < 25:
            return None
        seen.append(key)
        return key, row

    return corrupt


def test_rows_with_a_ttl_are_clean_and_a_wrong_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = ps.StreamsBuilder()
    builder.table("in", consumed(), materialized=ps.Materialized.as_("table").with_ttl(timedelta(seconds=30)))
    app = Application(builder.build(), tmp_path, ["in"])
    chance = random.Random(6)
    for number in range(300):
        app.send("in", f"k{chance.randrange(50)}", f"v{number}".encode(), number * 500, 0)
        if number % 70 == 0:
            app.settle()
    app.settle()
    report = app.audit(monkeypatch)
    assert report.is_clean, report.differences
    (table,) = report.stores
    assert 10 < table.found < 50, "some have expired"
    report = app.audit(monkeypatch, {"table": keyed("k", b"\0\0\0\0\0\0\0\7wrong")})
    (found,) = report.differences
    assert found.found == "'wrong' at 7"
    assert found.key.startswith("'k")
    assert found.origins


def test_versions_are_clean_and_a_wrong_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = ps.StreamsBuilder()
    versioned = ps.Stores.persistent_versioned_key_value_store("versions", timedelta(seconds=30))
    builder.table("in", consumed(), materialized=ps.Materialized.as_(versioned))
    app = Application(builder.build(), tmp_path, ["in"])
    chance = random.Random(7)
    for number in range(300):
        late = chance.choice((0, 0, 0, 2_000))
        value = None if chance.random() < 0.1 else f"v{number}".encode()
        app.send("in", f"k{chance.randrange(9)}", value, max(0, number * 300 - late), 0)
        if number % 70 == 0:
            app.settle()
    app.settle()
    report = app.audit(monkeypatch)
    assert report.is_clean, report.differences
    report = app.audit(monkeypatch, {"versions": lambda key, row: (key, row + b"!") if key == b"\xfek3" else None})
    (found,) = report.differences
    assert found.key == "'k3'"
    assert found.found.startswith("'v")
    assert "!'" in found.found


def foreign_key() -> ps.Topology:
    builder = ps.StreamsBuilder()
    left = builder.table("orders", consumed(), materialized=ps.Materialized.as_("orders-store"))
    right = builder.table("customers", consumed(), materialized=ps.Materialized.as_("customers-store"))
    joined = left.join(
        right, lambda order: order.split("/")[0], lambda order, customer: f"{order}+{customer}",
        materialized=ps.Materialized.as_("joined").with_key_serde(STRING).with_value_serde(STRING),
    )  # fmt: skip
    joined.group_by(lambda key, value: (value.split("+")[1], value), ps.Grouped.with_(STRING, STRING)).count(
        ps.Materialized.as_("orders-of-name")
    )
    return builder.build()


def test_a_foreign_key_join_and_what_is_behind_it_are_clean_and_a_wrong_result_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Application(foreign_key(), tmp_path, ["orders", "customers"], statestore_cache_max_bytes=0)
    chance = random.Random(8)
    for number in range(120):
        if chance.random() < 0.3:
            customer = chance.randrange(6)
            app.send("customers", f"c{customer}", f"n{chance.randrange(4)}".encode(), number, customer % 2)
        else:
            order = chance.randrange(20)
            app.send("orders", f"o{order}", f"c{chance.randrange(6)}/{number}".encode(), number, order % 2)
        app.settle()
    report = app.audit(monkeypatch)
    assert report.is_clean, report.differences
    assert {"joined", "orders-of-name", "orders-store", "customers-store"} <= {each.store for each in report.stores}
    assert all(store.found for store in report.stores)
    report = app.audit(monkeypatch, {"joined": keyed("o1", b"\0\0\0\0\0\0\0\7wrong")})
    (found,) = report.differences
    assert (found.store, found.found) == ("joined", "'wrong' at 7")
