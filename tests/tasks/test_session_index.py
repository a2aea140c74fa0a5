"""The sessions that an aggregate caches are those of the store, even if memory pressure evicts some meanwhile."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.common.windows import LARGEST_TIMESTAMP, Window
from penstock.state.windowed import keys, recent_sessions, session_index
from penstock.state.windowed.session_store import SessionStateStore
from tests.tasks.bench import STRINGS, Bench, changelog, number

FORMS: list[Any] = [recent_sessions.SessionLists, recent_sessions._SessionLists]


def test_with_a_compiler_the_compiled_form_is_in_use() -> None:
    compiler = shutil.which((os.environ.get("CC") or "cc").split()[0])
    assert FORMS[0] is not FORMS[1] or not compiler


GAP, GRACE = 5, 10_000
COMMIT, DROP, OPEN_ANEW = "commit", "drop", "open anew"

Step = tuple[str, int] | str
"""A record's key, and how far it lies from the latest of all; or what happens between records."""
RECORDS = st.tuples(st.sampled_from("abc"), st.integers(-60, 12))
STEPS = st.lists(RECORDS | RECORDS | RECORDS | st.sampled_from([COMMIT, DROP, DROP, OPEN_ANEW]), max_size=60)


def counting(how: ps.Materialized[Any, Any], gap_ms: int = GAP) -> ps.StreamsBuilder:
    builder = ps.StreamsBuilder()
    windows = ps.SessionWindows.of_inactivity_gap_and_grace(gap_ms, GRACE)
    builder.stream("in", STRINGS).group_by_key().windowed_by(windows).count(how)
    return builder


def sessions_of(records: list[tuple[str, int]]) -> dict[tuple[str, Window], int]:
    """By brute force: what lies no further apart than the gap belongs together."""
    times: defaultdict[str, list[int]] = defaultdict(list)
    for key, time in records:
        times[key].append(time)
    found: dict[tuple[str, Window], int] = {}
    for key, ordered in times.items():
        ordered.sort()
        first = 0
        for at, time in enumerate(ordered):
            if at + 1 == len(ordered) or ordered[at + 1] > time + GAP:
                found[key, Window(ordered[first], time)] = at + 1 - first
                first = at + 1
    return found


@pytest.mark.parametrize("how", [ps.Materialized.as_("s"), ps.Materialized.as_("s").with_caching_disabled()])
@pytest.mark.parametrize("kept_bytes", [0, session_index._KEPT_BYTES], ids=["tight", "roomy"])
@pytest.mark.parametrize("lists", FORMS, ids=["in use", "Python"])
@given(steps=STEPS)
def test_the_sessions_are_those_that_all_records_make(how: Any, kept_bytes: int, lists: Any, steps: list[Step]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session_index, "SessionLists", lists)
        patched.setattr(session_index, "_KEPT_BYTES", kept_bytes)
        patched.setattr(session_index, "PRUNED", 2)
        bench = Bench(counting(how))
        latest, records = 100, list[tuple[str, int]]()
        for step in steps:
            store = bench.state_manager.store("s")
            assert isinstance(store, SessionStateStore)
            match step:
                case (key, distance):
                    time = max(latest + distance, 0)
                    latest = max(latest, time)
                    records.append((key, time))
                    bench.feed("in", (key, "", time))
                case "commit":
                    bench.commit()
                case "drop":
                    store.drop_unused()
                case "open anew":
                    bench.commit()
                    bench = Bench(counting(how), stores=bench.stores)
        store = bench.state_manager.store("s")
        assert isinstance(store, SessionStateStore)
        found = {(key, window): count for key in "abc" for (_, window), count in store.view().fetch(key)}
    assert found == sessions_of(records)


@pytest.mark.parametrize("lists", FORMS, ids=["in use", "Python"])
def test_lists_report_what_is_near_and_what_they_do_not_know(lists: Any) -> None:
    made = lists(5, 100)
    assert made.find(b"a", 105) is None  # the sessions that end at 100 may be on disk
    assert made.find(b"a", 106) == ()
    assert made.add(b"a", 108, 103) == 1
    assert made.add(b"a", 103, 101) == 2
    assert made.find(b"a", 106) == [(103, 101), (108, 103)]
    assert made.find(b"a", 114) == ()
    made.loaded(b"b", 50, [(60, 55), (70, 70)])
    assert made.find(b"b", 56) == [(60, 55)]
    assert made.find(b"b", 55) is None
    made.forget(b"b")
    assert made.find(b"b", 1_000_000) is None


@pytest.mark.parametrize("lists", FORMS, ids=["in use", "Python"])
def test_a_list_that_was_used_outlives_one_generation(lists: Any) -> None:
    made = lists(5, 0)
    for key in (b"a", b"b"):
        made.loaded(key, 0, [(10, 10), (30, 30)])
    made.age(10)
    assert made.find(b"a", 30) == [(30, 30)]
    made.age(30)
    assert made.find(b"a", 36) == ()
    assert made.find(b"a", 30) is None  # its sessions until 30 are forgotten with those of all others
    assert made.find(b"b", 35) is None


CALLS = st.lists(
    st.tuples(
        st.sampled_from(
            ["find", "find", "loaded", "add", "replace", "drop_until", "forget", "clear", "age", "forget_until"]
        ),
        st.sampled_from([b"a", b"b", b""]),
        st.integers(0, 40),
        st.integers(0, 8),
    ),
    max_size=60,
)


@given(gap=st.integers(0, 10), calls=CALLS)
def test_compiled_lists_answer_as_those_in_python(gap: int, calls: list[tuple[str, bytes, int, int]]) -> None:
    both = [lists(gap, 3) for lists in FORMS]
    listed, reported = set[bytes](), list[list[Any]]()
    for call, key, time, length in calls:
        session = time + length, time
        match call:
            case "find":
                found = [lists.find(key, time) for lists in both]
                listed.update([key] if found[0] is not None else [])
                reported.append([None if each is None else list(each) for each in found])
            case "loaded":
                for lists in both:
                    lists.loaded(key, time, [session])
                listed.add(key)
            case "add" | "replace" if key in listed:
                gone = both[0].find(key, time) or () if call == "replace" else ()
                both[1].find(key, time)
                reported.append([lists.replace(key, gone, *session) for lists in both])
            case "drop_until" if key in listed and both[0].find(key, time) is not None:
                both[1].find(key, time)
                for lists in both:
                    lists.drop_until(key, time)
            case "forget":
                for lists in both:
                    lists.forget(key)
                listed.add(key)
            case "clear" | "age" | "forget_until":
                for lists in both:
                    getattr(lists, call)(time)
                listed.clear()
    for key in (b"a", b"b", b""):
        for time in range(50):
            reported.append(
                [None if each is None else list(each) for each in (lists.find(key, time) for lists in both)]
            )
    assert all(one == other for one, other in reported), reported


@given(
    key=st.binary(max_size=20),
    end=st.integers(0, LARGEST_TIMESTAMP),
    start=st.integers(0, LARGEST_TIMESTAMP),
    interval_ms=st.integers(1, LARGEST_TIMESTAMP),
)
def test_compiled_rows_are_those_in_python(key: bytes, end: int, start: int, interval_ms: int) -> None:
    row = recent_sessions._session_row(key, end, start, interval_ms)
    assert recent_sessions.session_row(key, end, start, interval_ms) == row
    assert keys.session_end(row) == keys._session_end(row) == end


@pytest.mark.skipif(FORMS[0] is FORMS[1], reason="the module could not be compiled here")
def test_compiled_lists_refuse_what_they_do_not_have() -> None:
    lists = recent_sessions.SessionLists(5, 0)
    with pytest.raises(KeyError):
        lists.add(b"a", 1, 1)
    lists.forget(b"a")
    with pytest.raises(ValueError, match="no such session"):
        lists.remove(b"a", [(1, 1)])
    with pytest.raises(TypeError, match="a key of bytes"):
        recent_sessions.session_row("a", 1, 1, 1)  # type: ignore[arg-type]  # what a serde may return


def test_sessions_that_records_in_order_look_for_are_not_scanned_for_when_memory_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(counting(ps.Materialized.as_("s")))
    store = bench.state_manager.store("s")
    records = [(str(number), "", 0) for number in range(25_000)]
    bench.feed("in", *records)
    bench.commit()
    while store.drop_unused():
        pass
    assert store.resident_bytes() == 0
    monkeypatch.setattr(session_index.SessionIndex, "_read", None)  # the scan
    bench.feed("in", *[(key, value, GAP) for key, value, _ in records])
    assert isinstance(store, SessionStateStore)
    assert [(window, count) for (_, window), count in store.view().fetch("7")] == [(Window(0, GAP), 2)]


def test_a_commit_deletes_the_rows_of_sessions_that_grew_without_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(counting(ps.Materialized.as_("s")))
    bench.feed("in", *[(key, "", 10) for key in "abc"])
    bench.commit()
    bench.feed("in", ("a", "", 13), ("b", "", 13), ("a", "", 15))
    store = bench.state_manager.store("s")
    assert isinstance(store, SessionStateStore)
    monkeypatch.setattr(type(store.buffer.committed), "get", None)
    sent = bench.commit()
    monkeypatch.undo()

    def row(key: bytes, start: int, end: int) -> bytes:
        return key + keys.end_and_start(end, start)

    assert [(each.key, number(each.value)) for each in sent if each.topic == changelog("s")] == [
        (row(b"a", 10, 10), None),
        (row(b"b", 10, 10), None),
        (row(b"b", 10, 13), 2),
        (row(b"a", 10, 15), 3),
    ]
    assert [(window, count) for (_, window), count in store.view().fetch("a")] == [(Window(10, 15), 3)]


@pytest.mark.parametrize("lists", FORMS, ids=["in use", "Python"])
def test_with_a_gap_without_end_memory_is_freed_too(lists: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_index, "SessionLists", lists)
    monkeypatch.setattr(session_index, "_KEPT_BYTES", 0)
    bench = Bench(counting(ps.Materialized.as_("s"), LARGEST_TIMESTAMP))
    store = bench.state_manager.store("s")
    assert isinstance(store, SessionStateStore)
    bench.feed("in", ("k", "", 5), ("k", "", 100))
    while store.drop_unused():
        pass
    bench.feed("in", ("k", "", 1000))
    assert [(window, count) for (_, window), count in store.view().fetch("k")] == [(Window(5, 1000), 3)]
