"""Session stores: their bytes, what they find, and what is too late. Any order of things: the model test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common.errors import UnknownQueryError
from penstock.common.serdes import Serdes
from penstock.common.windows import Window, Windowed
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.queries import PASSED, RangeQuery
from penstock.state.stores import Stores
from penstock.state.windowed.queries import SessionQuery, WindowKeyQuery
from penstock.state.write_buffer.ordered_keys import OrderedKeys
from penstock.state.write_buffer.write_buffer import FLUSH_STEP_ENTRIES
from tests.state.contexts import a_context
from tests.state.windowed_model import Key, Shape
from tests.state.windowed_rig import Rig, builder_of

HOUR = 3_600_000


@pytest.fixture(params=[False, True], ids=["uncached", "cached"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = Rig(Shape(HOUR, caching=request.param, sessions=True), None)
    yield rig
    rig.close()


def shown(found: Iterator[tuple[Windowed[Any], Any]]) -> list[str]:
    return [f"{key} {value}" for key, value in found]


def test_a_row_key_begins_with_the_segment_and_the_changelog_key_is_kafka_streams(rig: Rig) -> None:
    rig.put("A", 20, 5, "v", timestamp=7)
    rig.commit()
    key = "41" + "0000000000000014" + "0000000000000005"
    assert {key.hex(): row for key, row in rig.rows().items()} == {"0000000000000000" + key: b"v"}
    assert rig.changelog == [(bytes.fromhex(key), b"v", 7)]


def test_a_session_that_is_removed_leaves_a_tombstone(rig: Rig) -> None:
    rig.put("A", 20, 5, "v", timestamp=7)
    rig.commit()
    rig.remove("A", 20, 5, timestamp=8)
    rig.commit()
    assert rig.changelog[1:] == [(b"A" + (20).to_bytes(8, "big") + (5).to_bytes(8, "big"), None, 8)]
    assert rig.rows() == {}


def test_the_changelog_is_compacted_and_kept_as_long_as_the_store_and_a_day_more() -> None:
    supplier = Stores.persistent_session_store("s", HOUR)
    config = Stores.session_store_builder(supplier, Serdes.string(), Serdes.long()).changelog_config(86_400_000)
    assert config == {"cleanup.policy": "compact,delete", "retention.ms": str(HOUR + 86_400_000)}


def test_sessions_are_found_that_end_late_enough_and_start_early_enough(rig: Rig) -> None:
    for start, end in ((0, 10), (20, 30), (25, 30), (40, 50)):
        rig.put("a", end, start, f"{start}", timestamp=0)
        rig.put("ab", end, start, f"{start}", timestamp=0)
    assert shown(rig.view.find_sessions("a", 30, 25)) == ["[a@20/30] 20", "[a@25/30] 25"]
    assert shown(rig.view.backward_find_sessions("a", 30, 25)) == ["[a@25/30] 25", "[a@20/30] 20"]
    assert shown(rig.view.find_sessions("a", "ab", 31, 100)) == ["[a@40/50] 40", "[ab@40/50] 40"]
    assert len(shown(rig.view.fetch("a"))) == 4
    assert len(shown(rig.view.fetch(None, "ab"))) == 8
    assert rig.view.fetch_session("a", 25, 30) == "25"
    assert rig.view.fetch_session("a", 26, 30) is None
    assert rig.view.fetch_session("a", 31, 30) is None


def test_a_session_goes_when_its_end_is_too_old_however_early_it_began(rig: Rig) -> None:
    rig.put("a", 10, 0, "ends early", timestamp=0)
    rig.put("a", 11, 0, "ends late", timestamp=0)
    rig.put("b", HOUR + 10, 0, "v", timestamp=0)
    assert shown(rig.view.fetch("a")) == ["[a@0/11] ends late"]


def test_a_put_that_is_too_late_is_counted_and_a_removal_is_not(rig: Rig) -> None:
    rig.put("a", 9 * HOUR, 0, "v", timestamp=0)
    rig.remove("a", HOUR, 0, timestamp=0)
    assert rig.dropped == 0
    rig.put("a", HOUR, 0, "v", timestamp=0)
    rig.put("a", HOUR, 0, None, timestamp=0)
    assert rig.dropped == 2


@pytest.mark.parametrize("old_values", [False, True])
@pytest.mark.parametrize(
    ("steps", "reported"),
    [
        ("later remove", False),
        ("later commit remove", False),
        ("later commit early remove", False),
        ("later many remove", False),
        ("remove later", True),
    ],
)
def test_the_end_of_a_session_is_not_forwarded_if_it_had_expired_by_the_last_flush(
    steps: str, reported: bool, old_values: bool
) -> None:
    builder = builder_of(Shape(HOUR, caching=True, sessions=True))
    stores, logged, heard = open_task_stores(None, [builder]), list[tuple[bytes, bytes | None]](), list[Any]()
    context = a_context(stores.store(builder.name), lambda key, value, _: logged.append((key, value)), caching=True)
    store = builder.open(context)
    store.listen(lambda *update: heard.append(update[1]), old_values)
    store.index(gap_ms=1)
    for step in f"first commit {steps} commit".split():
        match step:
            case "first":
                store.put(b"a", Window(0, 10), "v", 0)
            case "later":
                store.put(b"b", Window(0, HOUR + 10), "v", 0)
            case "early":
                store.put(b"c", Window(0, 20), "v", 0)
            case "many":
                for end in range(2 * FLUSH_STEP_ENTRIES):
                    store.put(b"d", Window(0, end), "v", 0)
            case "remove":
                store.remove(b"a", Window(0, 10), 0)
            case "commit":
                batch = stores.new_batch()
                assert list(store.flush(batch))
                stores.write(batch, {})
                store.batch_written()
    assert ((b"a" + (10).to_bytes(8, "big") + bytes(8), None) in logged) is reported
    assert (None in heard) is reported


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (6, 5)])
def test_a_session_that_cannot_be_is_refused(rig: Rig, start: int, end: int) -> None:
    with pytest.raises(ValueError, match=f"store store: no session goes from {start} to {end}"):
        rig.view.put(Windowed("a", Window(start, end)), "v")


def test_a_find_of_other_arguments_is_refused(rig: Rig) -> None:
    with pytest.raises(TypeError, match=r"find_sessions takes \(key, earliest_session_end, .*\) or \(key_from"):
        rig.view.find_sessions("a", 1)


def test_queries_of_other_kinds_are_refused_with_those_it_answers(rig: Rig) -> None:
    for query in (RangeQuery(), WindowKeyQuery(b"a", 0, 10)):
        with pytest.raises(UnknownQueryError, match=r"'store' does not answer .*; it answers: SessionQuery, SessionRa"):
            rig.store.answer(query, None, 10, False)


@pytest.mark.parametrize("committed", [False, True])
def test_a_query_gives_way_while_it_passes_over_the_sessions_of_a_key_that_begin_too_late(
    rig: Rig, committed: bool
) -> None:
    for end in range(2000):
        rig.put("a", end, end, "v", timestamp=0)
    rig.commit()
    answered = list(rig.store.answer(SessionQuery(b"a", 0, 0), None, 10, committed))
    assert [row.value for row in answered] == ["v", PASSED, PASSED, PASSED]
    behind = rig.store.answer(SessionQuery(b"a", 0, 1700), answered[-1].key, 1000, committed)
    assert len([row for row in behind if row.value is not PASSED]) == 1700 - 1536


def test_a_changelog_record_has_the_time_of_its_session() -> None:
    """Found wrong: it was 0, and a topic with retention deletes such records at once."""
    rig = Rig(Shape(HOUR, sessions=True), None)
    rig.put("a", 5000, 4000, "x", 1)
    rig.commit()
    assert rig.store.changelog_record(Key("a", 5000, 4000).data(sessions=True)) == (b"x", 5000)
    assert rig.store.changelog_record(Key("b", 5000, 4000).data(sessions=True)) == (None, 0)
    rig.close()


def test_a_find_looks_at_the_sessions_there_are_and_not_at_those_that_came_and_went(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    between = OrderedKeys.between

    def counted(keys: OrderedKeys, *ends: Any) -> Iterator[bytes]:
        found = list(between(keys, *ends))
        looked_at.append(len(found))
        return iter(found)

    monkeypatch.setattr(OrderedKeys, "between", counted)
    records = 300
    for time in range(0, 2 * records, 2):
        start, count = time, 0
        for session, counted_so_far in list(rig.view.find_sessions("a", time - 10, time + 10)):
            start, count = session.window.start, int(counted_so_far)
            rig.remove("a", session.window.end, session.window.start, timestamp=time)
        rig.put("a", time, start, str(count + 1), timestamp=time)
        if time == records:
            rig.commit()
    assert shown(rig.view.fetch("a")) == [f"[a@0/{2 * records - 2}] {records}"]
    assert len(looked_at) >= records
    assert max(looked_at) <= 4, f"one find looked at {max(looked_at)} changes"


def test_the_stream_time_of_a_store_is_kept_even_if_all_that_was_put_was_removed_again(rig: Rig) -> None:
    rig.put("a", 10, 10, "old", timestamp=10)
    rig.commit()
    for _ in range(2):
        rig.put("a", 10 * HOUR, 10 * HOUR, "new", timestamp=11)
        rig.remove("a", 10 * HOUR, 10 * HOUR, timestamp=12)
    assert rig.store.has_changes
    rig.commit()
    assert rig.store.rows.stream_time == 10 * HOUR
    assert set(rig.rows()) == set()
