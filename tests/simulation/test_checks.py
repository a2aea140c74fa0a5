"""The checks find wrong results, and accept those that at least once allows."""

from __future__ import annotations

from random import Random

import pytest

from penstock.common.topics import NewTopic
from penstock.state.windowed.keys import end_and_start
from penstock.testing.fake_broker import FakeBroker, FakeRecord
from tests.simulation.checks import differences
from tests.simulation.programs import Program, Records, program

OUT = "out-stream-table-0"


def _stream_table() -> Program:
    return program(Random(0), ("stream_table",))


def _broker(*results: str) -> FakeBroker:
    """The results of ``t3a`` beside a table that had ``t1a``, then ``t2b``, then ``t4c``."""
    broker = FakeBroker()
    for topic in ("left", "right", OUT):
        broker.create_topic(NewTopic(topic, 1))
    for value in ("t1a", "t2b", "t4c"):
        broker.append("right", FakeRecord(b"a", value.encode(), 1, None))
    for value in results:
        broker.append(OUT, FakeRecord(b"a", value.encode(), 1, None))
    return broker


@pytest.mark.parametrize("met", ["t2b", "t4c"])
def test_at_least_once_a_stream_record_may_meet_a_later_value_of_the_table(met: str) -> None:
    found = list(differences(_stream_table(), _broker("t3a t2b"), _broker(f"t3a {met}"), exactly_once=False))
    assert found == []


@pytest.mark.parametrize("results", [(), ("t3a t1a",), ("t3a None",), ("t3a t9e",), ("t9a t2b",)])
def test_it_must_not_be_lost_nor_meet_an_earlier_value_nor_one_that_never_was(results: tuple[str, ...]) -> None:
    found = list(differences(_stream_table(), _broker("t3a t2b"), _broker(*results), exactly_once=False))
    assert found == [f"{OUT}: a t3a t2b is lost"]


def test_exactly_once_it_meets_the_value_that_it_meets_without_faults() -> None:
    found = list(differences(_stream_table(), _broker("t3a t2b"), _broker("t3a t4c"), exactly_once=True))
    assert len(found) == 2


def test_the_closing_records_follow_behind_every_window_of_a_join() -> None:
    drawn = program(Random(0), ("stream_join", "aggregate"))
    records = Records(Random(0), drawn, 0)
    before = [row.timestamp for _ in range(20) for row in records.bunch() if row.topic in drawn.joined]
    closing = records.closing()
    assert {row.topic for row in closing} == set(drawn.joined)
    assert min(row.timestamp for row in closing) > max(before) + 30_000


SESSIONS = "out-windowed-0"


def _sessions() -> Program:
    drawn = (program(Random(seed), ("windowed",)) for seed in range(100))
    return next(it for it in drawn if it.sessions)


def _session_key(first: int, last: int) -> bytes:
    return b"a" + end_and_start(last, first)


def _merged(*changes: tuple[bytes, bytes | None], result: str, session: str) -> FakeBroker:
    """A result, and what came into the changelog."""
    broker = FakeBroker()
    changelog = _sessions().sessions[SESSIONS]
    for topic in (SESSIONS, changelog):
        broker.create_topic(NewTopic(topic, 1))
    for key, value in changes:
        broker.append(changelog, FakeRecord(key, value, 1, None))
    broker.append(SESSIONS, FakeRecord(f"a@{session}".encode(), result.encode(), 1, None))
    return broker


def test_at_least_once_a_session_may_be_lost_that_was_deleted_for_one_that_never_came() -> None:
    wanted = _merged(result="t1a t2b", session="1-2")
    old, merged, again = _session_key(1, 1), _session_key(1, 2), _session_key(2, 2)
    lost = _merged((old, b"t1a"), (old, None), (again, b"t2b"), result="t2b", session="2-2")
    assert list(differences(_sessions(), wanted, lost, exactly_once=False)) == []
    assert len(list(differences(_sessions(), wanted, lost, exactly_once=True))) == 2
    kept = _merged((old, b"t1a"), (old, None), (merged, b"t1a t2b"), result="t2b", session="2-2")
    assert list(differences(_sessions(), wanted, kept, exactly_once=False)) == [
        f"{SESSIONS}: key a@1-2 is lost, it is t1a t2b without faults"
    ]
