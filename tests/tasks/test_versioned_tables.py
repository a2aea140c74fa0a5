"""Versioned tables: the effect of their updates, and the versions that joined streams see."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from penstock.common.config import StreamsConfig
from penstock.common.errors import TopologyError
from penstock.common.records import Record, RecordMetadata
from penstock.common.serdes import Serdes
from penstock.state.stores import Stores
from penstock.tasks.context import TaskContext
from penstock.tasks.operators.versions import latest_only
from penstock.topology.dsl.kstream import KStream
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Joined, Produced
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.processor_api.processor import Processor, ProcessorContext
from tests.tasks.bench import LONGS, STRINGS, Bench, Resume, Row, changelog, number, values

OUT = Produced.with_(Serdes.string(), Serdes.string())


def versioned(name: str = "table", history_ms: int = 100) -> Materialized[str, Any]:
    return Materialized.as_(Stores.persistent_versioned_key_value_store(name, history_ms))


def mapped(kept: Materialized[str, str]) -> Materialized[str, str]:
    return kept.with_value_serde(Serdes.string())


def a_table(builder: StreamsBuilder, history_ms: int = 100) -> KTable[str, str]:
    return builder.table("table", STRINGS, versioned(history_ms=history_ms))


def joined(
    change: Any = lambda table: table, left: bool = False, history_ms: int = 100, grace_ms: int | None = None
) -> Bench:
    """A stream joined with a versioned table, or with what ``change`` makes of it."""
    builder = StreamsBuilder()
    table = change(a_table(builder, history_ms))
    stream = builder.stream("in", STRINGS)
    how: Joined[str, str, str] = Joined.as_("join")
    if grace_ms is not None:
        how = how.with_grace_period(grace_ms)
    join = stream.left_join if left else stream.join
    join(table, lambda value, other: f"{value}/{other}", how).to("out", OUT)
    return Bench(builder, {"processing.exception.handler": Resume()} if left else None)


def out(bench: Bench, *rows: Any) -> list[Any]:
    return [(sent.value, sent.timestamp) for sent in bench.feed("in", *rows) if sent.topic == "out"]


def test_a_late_update_is_handed_on_and_one_that_is_too_late_is_dropped() -> None:
    builder = StreamsBuilder()
    a_table(builder, 10).to_stream().to("out", OUT)
    bench = Bench(builder)
    sent = bench.feed("table", ("k", "a", 50), ("k", "b", 45), ("k", "c", 39), ("k", None, 44), (None, "d", 60))
    assert values([each for each in sent if each.topic == "out"]) == ["a", "b", None]
    assert bench.dropped == 2
    assert [each.timestamp for each in sent if each.topic == changelog("table")] == [50, 45, 39, 44]


def test_a_stream_sees_what_the_table_held_at_the_time_of_its_record() -> None:
    bench = joined(left=True)
    bench.feed("table", ("k", "a", 50), ("k", "b", 90), ("k", None, 100))
    assert out(bench, ("k", "1", 50), ("k", "2", 89), ("k", "3", 90), ("k", "4", 100), ("k", "5", 49)) == [
        (b"1/a", 50), (b"2/a", 89), (b"3/b", 90), (b"4/None", 100), (b"5/None", 49)
    ]  # fmt: skip
    assert out(bench, (None, "6", 50), ("k", None, 50)) == [(b"6/None", 50)]
    assert bench.dropped == 1


def test_longer_ago_than_history_there_is_only_what_is_still_the_latest() -> None:
    bench = joined(history_ms=20)
    bench.feed("table", ("old", "a", 50), ("k", "a", 50), ("k", "b", 90))
    assert out(bench, ("k", "1", 69), ("k", "2", 70), ("old", "3", 50)) == [(b"2/a", 70), (b"3/a", 50)]


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (lambda table: table.map_values(str.upper), [(b"1/A", 50), (b"2/BB", 95)]),
        (lambda table: table.filter(lambda value: len(value) == 1), [(b"1/a", 50)]),
        (
            lambda table: table.filter_not(lambda key, value: value == "a").map_values(lambda k, v: k + v),
            [(b"2/kbb", 95)],
        ),
        (lambda table: table.map_values(str.upper, mapped(versioned("mapped"))), [(b"1/A", 50), (b"2/BB", 95)]),
        # A store that keeps no versions makes a table of the latest values.
        (lambda table: table.map_values(str.upper, mapped(Materialized.as_("mapped"))), [(b"1/BB", 50), (b"2/BB", 95)]),
    ],
)
def test_tables_derived_from_a_versioned_one_are_versioned_until_they_are_materialized(
    change: Any, seen: list[Any]
) -> None:
    bench = joined(change)
    bench.feed("table", ("k", "a", 50), ("k", "bb", 90))
    bench.commit()
    assert out(bench, ("k", "1", 50), ("k", "2", 95)) == seen


def test_a_filter_of_a_versioned_table_hands_on_deletions_of_nothing() -> None:
    def deletions(kept: Materialized[str, str]) -> int:
        builder = StreamsBuilder()
        table = builder.table("table", STRINGS, kept)
        table.filter(lambda value: False).to_stream().to("out", OUT)
        bench = Bench(builder)
        sent = [*bench.feed("table", ("k", "a", 1), ("k", "b", 2)), *bench.commit()]
        return len([each for each in sent if each.topic == "out"])

    assert deletions(versioned()) == 2
    assert deletions(Materialized.as_("table").with_caching_disabled()) == 0


def test_aggregates_and_streams_can_be_kept_in_versioned_stores() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", STRINGS)
    counts = stream.group_by_key().count(versioned("counts", 1000))
    table = stream.to_table(versioned("last", 1000))
    counts.to_stream().to("counts", Produced.with_(Serdes.string(), Serdes.long()))
    stream.join(counts, lambda value, count: f"{value}{count}").to("out", OUT)
    table.to_stream().to("table", OUT)
    bench = Bench(builder)
    sent = bench.feed("in", ("k", "a", 50), ("k", "b", 70), ("k", "c", 60), ("k", None, 65))
    assert [(number(each.value), each.timestamp) for each in sent if each.topic == "counts"] == [
        (1, 50),
        (2, 70),
        (3, 70),
    ]
    # The third update of the count is of time 70, so at 60 it was still 1.
    assert values([each for each in sent if each.topic == "out"]) == ["a1", "b2", "c1"]
    store = bench.state_manager.store("last").view()
    assert [store.get("k", time) for time in (69, 64, 70)] == [None, ("c", 60, 65), ("b", 70, None)]
    assert store.get("k") == ("b", 70, None)


def test_operators_of_the_latest_values_do_not_see_late_updates() -> None:
    context = TaskContext("app", None)  # type: ignore[arg-type]  # it is not asked for
    seen: list[Any] = []
    edge = latest_only(lambda *update: seen.append(update), context, counted=True)
    edge("k", "a", None, 1)
    context.is_latest = False
    edge("k", "b", None, 0)
    latest_only(lambda *update: seen.append(update), context, counted=False)("k", "c", None, 0)
    assert seen == [("k", "a", None, 1)]
    assert context.dropped_records == 1


def test_a_passing_update_knows_whether_it_is_the_latest() -> None:
    builder = StreamsBuilder()
    message: list[tuple[str, bool]] = []
    bench: Bench
    a_table(builder).map_values(lambda value: message.append((value, bench.task._context.is_latest))).to_stream()
    bench = Bench(builder)
    bench.feed("table", ("k", "a", 50), ("k", "b", 45), ("k", "c", 50), ("k", "d", 51))
    assert message == [("a", True), ("b", False), ("c", True), ("d", True)]
    assert bench.task._context.is_latest


# ---- grace ----


def test_with_a_grace_period_records_wait_for_the_tables_updates_of_their_time() -> None:
    bench = joined(grace_ms=10)
    assert out(bench, ("k", "1", 50), ("k", "2", 55)) == []
    bench.feed("table", ("k", "a", 50), ("k", "b", 55))
    assert out(bench, ("k", "3", 60)) == [(b"1/a", 50)]
    assert out(bench, ("x", "4", 65), ("k", "5", 66)) == [(b"2/b", 55)]
    # Too late to wait: joined at once, and nothing that waits leaves because of it.
    assert out(bench, ("k", "6", 55)) == [(b"6/b", 55)]
    assert out(bench, ("k", "7", 200)) == [(b"3/b", 60), (b"5/b", 66)]
    assert out(bench, ("k", None, 300), (None, "8", 300)) == []
    assert bench.dropped == 2


def test_without_a_grace_of_its_own_length_a_record_leaves_with_the_next_one() -> None:
    bench = joined(grace_ms=0)
    bench.feed("table", ("k", "a", 0))
    assert out(bench, ("k", "1", 50)) == [(b"1/a", 50)]


def test_a_record_without_a_key_cannot_wait() -> None:
    bench = joined(left=True, grace_ms=10)
    assert out(bench, (None, "1", 50), ("k", "2", 50), ("k", "3", 60)) == [(b"2/None", 50)]
    ((_, _, error),) = bench.program.config.processing_exception_handler.caught
    assert isinstance(error, ValueError)
    assert "a record without a key cannot wait in a join with a grace period" in str(error)


class _Places(Processor[str, str, str, str]):
    seen: list[Any]

    def __init__(self) -> None:
        self.seen = []

    @override
    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context

    @override
    def process(self, record: Record[str, str]) -> None:
        self.seen.append((record.value, record.timestamp, record.headers, self.context.record_metadata()))


def test_a_record_that_has_waited_keeps_its_headers_and_its_metadata() -> None:
    builder = StreamsBuilder()
    places = _Places()
    made = iter([_Places(), _Places(), places])
    stream: KStream[str, str] = builder.stream("in", STRINGS)
    how: Joined[str, str, str] = Joined.as_("join").with_grace_period(10)
    merged = stream.join(a_table(builder), lambda value, other: value, how).merge(stream)
    merged.process(lambda: next(made))
    bench = Bench(builder)
    bench.feed("table", ("k", "a", 0))
    bench.feed("in", Row("k", "1", 50, [("h", b"x")]), Row("k", "2", 60), Row("k", "3", 60, [("h", b"z")]))
    assert places.seen == [
        ("1", 50, [("h", b"x")], RecordMetadata("in", 0, 0)),
        ("1", 50, [("h", b"x")], RecordMetadata("in", 0, 0)),
        ("2", 60, (), RecordMetadata("in", 0, 1)),
        ("3", 60, [("h", b"z")], RecordMetadata("in", 0, 2)),
    ]


def test_records_that_wait_may_be_of_any_type() -> None:
    builder = StreamsBuilder()
    how: Joined[str, int, str] = Joined.as_("join").with_grace_period(5)
    stream = builder.stream("in", LONGS)
    stream.join(a_table(builder), lambda key, value, other: f"{key}{value + 1}{other}", how).to("out", OUT)
    bench = Bench(builder)
    bench.feed("table", ("k", "a", 0))
    assert out(bench, ("k", 7, 50), ("k", 8, 55)) == [(b"k8a", 50)]


def test_a_grace_period_needs_a_table_with_a_history_as_long() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", STRINGS)
    how: Joined[str, str, str] = Joined.as_("join").with_grace_period(11)
    with pytest.raises(TopologyError, match="join join: a grace period needs a versioned table"):
        stream.join(builder.table("plain", STRINGS), lambda value, other: value, how)
    with pytest.raises(
        TopologyError, match="a grace period of 11 ms needs a history as long, but that of the table is"
    ):
        stream.left_join(a_table(builder, 10), lambda value, other: value, how)
    with pytest.raises(ValueError, match="grace_period may not be negative"):
        how.with_grace_period(-1)


def test_the_changelogs_are_created_as_in_kafka_streams() -> None:
    builder = StreamsBuilder()
    how: Joined[str, str, str] = Joined.as_("join").with_grace_period(10)
    builder.stream("in", STRINGS).join(a_table(builder), lambda value, other: value, how).to("out", OUT)
    config = StreamsConfig.of({"application.id": "app", "topic.min.compaction.lag.ms": "5"})
    plan = plan_topics(builder.build(config), config, {"in": 3, "table": 3, "out": 1})
    assert {topic.name: topic.config["min.compaction.lag.ms"] for topic in plan.internal} == {
        "app-table-changelog": str(86_400_000 + 100),
        "app-join-Buffer-changelog": "5",
    }
    assert {topic.config["cleanup.policy"] for topic in plan.internal} == {"compact"}
