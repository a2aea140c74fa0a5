"""The records of a key in topics of a broker in memory."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cluster.record_side import KeyRecords, KeyScan
from penstock.cluster.topic_reading import range_reads
from penstock.cluster.topic_reading.key_records import KeyOf, key_records
from penstock.cluster.topic_reading.keys import KeyForm
from penstock.cluster.topic_reading.range_reads import Budget
from penstock.cluster.topic_reading.showing import MOST_DECODED
from penstock.common.serdes import Serdes
from penstock.common.windows import Window
from penstock.state.windowed.keys import SessionKeySchema, WindowKeySchema, end_and_start, start_and_sequence
from penstock.testing.fake_broker import FakeRecord
from tests.cluster.topic_reading.logs import Logs

PLAIN = KeyForm()


def records(
    logs: Logs,
    scan: KeyScan | None = None,
    form: KeyForm = PLAIN,
    key: bytes = b"k",
    partitions: tuple[int, ...] | None = (0,),
    budget: Budget | None = None,
) -> KeyRecords:
    source = logs.source(key=Serdes.bytes())
    assert source.serdes is not None
    return key_records(source, source.serdes, "t", KeyOf(form, key, partitions), scan or KeyScan(), budget)


def values(found: KeyRecords) -> list[Any]:
    return [record.value and record.value.value for record in found.records]


def test_every_version_that_the_topic_has_is_there_and_null_deletes() -> None:
    logs = Logs(2, config={"cleanup.policy": "compact"})
    logs.write("first", time=1)
    logs.write("of another", key="kk")
    logs.write("of none", key=None)
    logs.write(None, time=2)
    logs.write("again", time=3)
    logs.write("in another partition", 1)
    found = records(logs)
    assert values(found) == ["again", None, "first"]
    assert [(each.offset, each.timestamp) for each in found.records] == [(4, 3), (3, 2), (0, 1)]
    assert (found.compacted, found.cursor, found.stopped) == (True, None, None)
    assert [(each.partition, each.begin, each.reached, each.end) for each in found.looked] == [(0, 0, 0, 5)]
    assert values(records(logs, partitions=None)) == ["again", None, "first", "in another partition"]


def test_exactly_once_versions_that_are_not_committed_are_left_out() -> None:
    logs = Logs(exactly_once=True)
    logs.transaction("a", "b")
    logs.transaction("aborted", commit=False)
    logs.transaction("c")
    logs.transaction("open", commit=None)
    found = records(logs)
    assert (values(found), found.committed_only, found.compacted) == (["c", "b", "a"], True, False)


def test_it_goes_no_further_back_than_a_time_and_continues_by_a_cursor() -> None:
    logs = Logs()
    for number in range(50):
        logs.write(f"v{number}", time=number)
    since = records(logs, KeyScan(from_ms=47))
    assert (values(since), since.cursor) == (["v49", "v48", "v47"], None)
    assert [(each.begin, each.reached) for each in since.looked] == [(47, 47)]
    assert records(logs, KeyScan(from_ms=1000)).records == ()
    page, found = records(logs, KeyScan(20)), []
    while page.cursor is not None:
        found += values(page)
        assert len(found) < 50, "records came twice"
        page = records(logs, KeyScan(20, cursor=page.cursor))
    assert found + values(page) == [f"v{number}" for number in range(49, -1, -1)]


def test_windows_of_the_key_and_of_no_other() -> None:
    logs = Logs()
    windowed = KeyForm(WindowKeySchema(10))
    for key, start in ((b"k", 20), (b"k", 30), (b"kk", 20), (b"", 20)):
        logs.broker.append("t", FakeRecord(key + start_and_sequence(start, 0), b"v", start, None), 0)
    logs.write("no window at all")
    assert [each.window for each in records(logs, form=windowed).records] == [Window(30, 40), Window(20, 30)]
    sessions = Logs()
    sessions.broker.append("t", FakeRecord(b"k" + end_and_start(9, 5), b"v", 1, None), 0)
    assert [each.window for each in records(sessions, form=KeyForm(SessionKeySchema())).records] == [Window(5, 9)]


def test_a_read_that_must_end_early_continues_where_it_ended() -> None:
    logs = Logs()
    for number in range(200):
        logs.write(f"{number:03}" * 30_000)
    found = records(logs, KeyScan(200), budget=Budget(1 << 20, 60))
    assert found.stopped == "1 MiB read"
    assert found.cursor == f"0:{200 - len(found.records)}"
    assert 0 < len(found.records) < 200
    assert [each.value and each.value.size for each in found.records] == [90_000] * len(found.records)


def test_records_of_a_twelfth_of_all_bytes_are_found_in_as_many_answers_as_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(range_reads, "_RECORDS", 1)  # large ones come one by one
    logs = Logs()
    for _ in range(30):
        logs.write("v" * 100)
    found, scan = [], KeyScan(30)
    for _ in range(30):
        page = records(logs, scan, budget=Budget(1280, 60))
        found += [record.offset for record in page.records]
        scan = KeyScan(30, cursor=page.cursor)
        if page.cursor is None:
            break
    assert found == list(range(29, -1, -1))


def test_a_read_that_comes_to_the_beginning_did_not_end_early() -> None:
    logs = Logs()
    for _ in range(4):
        logs.write("v" * 100)
    assert records(logs, budget=Budget(100, 60)).stopped is None


def test_the_window_of_a_key_that_is_cut_is_not_shown() -> None:
    logs = Logs()
    key = b"k" * MOST_DECODED
    logs.broker.append("t", FakeRecord(key + start_and_sequence(20, 0), b"v", 20, None), 0)
    (record,) = records(logs, form=KeyForm(WindowKeySchema(10)), key=key).records
    assert record.window is None


def test_retention_has_deleted_the_first_records() -> None:
    logs = Logs()
    for number in range(10):
        logs.write(f"v{number}")
    logs.clients.admin().delete_records({logs.partition: 8})
    found = records(logs)
    assert (values(found), [each.begin for each in found.looked]) == (["v9", "v8"], [8])


def test_settings_that_may_not_be_seen_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs()
    admin = logs.clients.admin()
    monkeypatch.setattr(admin, "topic_configs", lambda topics: {})
    monkeypatch.setattr(type(logs.clients), "admin", lambda it: admin)
    assert records(logs).compacted is None
