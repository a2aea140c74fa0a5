"""Queries of a stream loop, which are answered between two batches, and while a commit is under way."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.actors.store_queries import QueryFailure, StoreQuery
from penstock.common.ids import TaskId
from penstock.state.queries import CountQuery, Query, RangeQuery
from tests.actors.rig import (
    CHANGELOG,
    STRING,
    Rig,
    count_of,
    key_query,
    keys,
    query,
    settle,
)


def test_queries_are_answered_while_a_commit_is_under_way(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", *((f"k{number:04}", "x", number + 1) for number in range(3000)))
    settle(loop)
    rig.coordinator.hold()
    rig.clock.now_ms += 1001
    answered = 0
    while not rig.coordinator.held:
        assert count_of(loop, "k0000") == 1
        assert len(query(loop, StoreQuery(TaskId(0, 0), "counts", RangeQuery(), limit=400))[0].rows) == 400
        answered += 1
    assert answered > 3, "a large commit gives way"
    assert count_of(loop, "k2999") == 1
    assert count_of(loop, "k2999", committed=True) is None
    rig.coordinator.release()
    settle(loop)
    assert count_of(loop, "k2999", committed=True) == 1


def test_ranges_are_ordered_bounded_and_see_uncommitted_updates(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("b", "x", 1), ("d", "x", 1))
    loop = rig.running()
    rig.commit(loop)
    rig.write("in", ("a", "x", 2), ("c", "x", 2))
    settle(loop)
    task = TaskId(0, 0)

    def of(asked: RangeQuery, after: bytes | None = None, limit: int = 10, committed: bool = False) -> list[bytes]:
        return keys(query(loop, StoreQuery(task, "counts", asked, after, limit, committed)))

    assert of(RangeQuery()) == [b"a", b"b", b"c", b"d"]
    assert of(RangeQuery(b"b", b"c")) == [b"b", b"c"]
    assert of(RangeQuery(), limit=2) == [b"a", b"b"]
    assert of(RangeQuery(), after=b"b") == [b"c", b"d"]
    assert of(RangeQuery(), committed=True) == [b"b", b"d"]
    (counted,) = query(loop, StoreQuery(task, "counts", CountQuery()))
    assert counted.rows[0].value >= 4
    (found,) = query(loop, key_query("a"))
    assert found.rows == ((b"a", 1, 2),)


def test_a_question_that_cannot_be_answered_reports_why(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    elsewhere, unknown = query(loop, key_query("a", partition=7), key_query("a", store="none"))
    assert elsewhere.failure is QueryFailure.NOT_PRESENT
    assert unknown.failure is QueryFailure.DOES_NOT_EXIST
    assert "counts" in unknown.detail


def test_a_kind_of_question_that_the_store_does_not_answer_fails_with_those_it_does(tmp_path: Path) -> None:
    class LargestQuery(Query):
        pass

    class LargestRowsQuery(Query):
        single = False

    rig = Rig(tmp_path)
    loop = rig.running()
    answers = query(
        loop, *(StoreQuery(TaskId(0, 0), "counts", asked) for asked in (LargestQuery(), LargestRowsQuery()))
    )
    assert [answer.failure for answer in answers] == [QueryFailure.UNKNOWN_QUERY_TYPE] * 2
    assert answers[0].detail == (
        "store 'counts' does not answer LargestQuery; it answers: KeyQuery, KeysQuery, RangeQuery, PrefixQuery, "
        "CountQuery"
    )


def test_a_task_that_restores_is_not_asked(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    producer = rig.clients.producer()
    for number in range(3000):
        producer.send(CHANGELOG, b"%d" % number, (1).to_bytes(8, "big"), 1, None, 0)
    producer.flush(1)
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    failures = []
    for _ in range(300):
        failures.append(query(loop, key_query("1"))[0].failure)
        if failures[-1] is None:
            break
    assert QueryFailure.NOT_ACTIVE in failures
    assert failures[-1] is None


def test_an_aggregate_that_is_changed_in_place_does_not_change_an_answer(tmp_path: Path) -> None:
    def add(key: str, value: str, aggregate: list[str]) -> list[str]:
        aggregate.append(value)
        return aggregate

    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key()
    grouped.aggregate(list, add, ps.Materialized.as_("counts").with_value_serde(ps.Serdes.json()))
    rig = Rig(tmp_path, builder.build())
    loop = rig.running()
    rig.write("in", ("a", "one", 1))
    settle(loop)
    (before,) = query(loop, key_query("a"))
    rig.write("in", ("a", "two", 2))
    settle(loop)
    assert before.rows[0][1] == ["one"]
    assert query(loop, key_query("a"))[0].rows[0][1] == ["one", "two"]
