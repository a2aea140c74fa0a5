"""The task as its host drives it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.common.ids import TaskId, TopicPartition
from penstock.common.serdes import Serdes
from penstock.tasks.program import Changelog
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Grouped, Joined, Produced
from tests.tasks.bench import STRINGS, Bench, Row, changelog, number, values

OUT: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.string())
SERDES = {"default.key.serde": Serdes.string(), "default.value.serde": Serdes.string()}


def copying() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).to("out", OUT)
    return builder


def busy() -> StreamsBuilder:
    """Two topics, a table that is joined, a count that is cached and a fold that is not: all there is to get wrong."""
    builder = StreamsBuilder()
    table = builder.table("table", STRINGS, materialized=Materialized.as_("rows"))
    joined = builder.stream("in", STRINGS).left_join(table, lambda left, right: f"{left}/{right}", Joined.with_())
    joined.to("joined", OUT)
    grouped = joined.group_by_key(Grouped.with_(Serdes.string(), Serdes.string()))
    grouped.count(Materialized.as_("counts")).to_stream().to("counted", Produced.with_(Serdes.string(), Serdes.long()))
    kept: Materialized[Any, Any] = Materialized.as_("folded").with_value_serde(Serdes.string())
    folded = grouped.reduce(lambda a, v: f"{a}+{v}", kept.with_caching_disabled())
    folded.to_stream().to("folded-out", OUT)
    return builder


class TestProcessing:
    def test_at_most_as_many_records_as_asked_for(self) -> None:
        bench = Bench(copying())
        bench.add("in", *(("k", f"{n}", n) for n in range(5)))
        assert [bench.task.process(2, 0) for _ in range(4)] == [2, 2, 1, 0]
        assert values(bench.collector.take()) == ["0", "1", "2", "3", "4"]
        assert bench.task.metrics().process_total == 5

    def test_waiting_records_are_counted_per_partition(self) -> None:
        bench = Bench(copying())
        partition = TopicPartition("in", 0)
        assert bench.task.queued(partition) == 0
        bench.add("in", ("k", "a", 1), ("k", "b", 2))
        bench.add("in", ("k", "c", 3))
        assert bench.task.queued(partition) == 3
        bench.task.process(1, 0)
        assert bench.task.queued(partition) == 2
        bench.run()
        assert bench.task.queued(partition) == 0

    def test_an_empty_batch_is_nothing(self) -> None:
        bench = Bench(copying())
        bench.add("in")
        assert bench.run() == 0

    def test_key_value_time_and_headers_go_through(self) -> None:
        (sent,) = Bench(copying()).feed("in", ("k", "v", 5, [("h", b"1"), ("h", None)]))
        assert sent == ("out", b"k", b"v", 5, [("h", b"1"), ("h", None)], -1)

    def test_headers_belong_to_their_own_record(self) -> None:
        sent = Bench(copying()).feed("in", ("k", "a", 1, [("h", b"1")]), ("k", "b", 2))
        assert [each.headers for each in sent] == [[("h", b"1")], None]

    def test_headers_of_one_topic_do_not_leak_into_another(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).merge(builder.stream("other", STRINGS)).to("out", OUT)
        bench = Bench(builder)
        bench.add("in", ("k", "a", 1, [("h", b"1")]), ("k", "c", 3))
        bench.add("other", ("k", "b", 2))
        bench.run()
        assert [each.headers for each in bench.collector.take()] == [[("h", b"1")], None, None]

    def test_stream_time_is_the_largest_timestamp(self) -> None:
        bench = Bench(copying())
        assert bench.task.metrics().stream_time_ms == -1
        bench.feed("in", ("k", "a", 9), ("k", "b", 4))
        assert bench.task.metrics().stream_time_ms == 9

    def test_topics_are_named_as_in_kafka(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).group_by(lambda k, v: v, Grouped.as_("words")).count(Materialized.as_("counts"))
        bench = Bench(builder, SERDES)
        assert tuple(bench.program.sources) == ("in", "app-words-repartition")
        assert bench.program.changelogs == {"counts": Changelog(changelog("counts"), is_source_topic=False)}
        assert bench.task.task_id == TaskId(0, 0)
        assert [each.topic for each in bench.feed("in", ("k", "v", 1))] == ["app-words-repartition"]

    def test_null_keys_and_values_of_an_aggregate_are_dropped_and_counted(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).group_by_key().count(Materialized.as_("counts"))
        bench = Bench(builder)
        bench.feed("in", (None, "v", 1), ("k", None, 2), ("k", "v", 3))
        assert bench.dropped == 2
        assert bench.look_up("counts", b"k", committed=False) == (b"k", 1, 3)

    def test_a_null_key_in_front_of_a_repartition_is_dropped_silently(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).group_by(lambda k, v: None if v == "none" else v).count()
        bench = Bench(builder, SERDES)
        assert len(bench.feed("in", ("k", "none", 1), ("k", "some", 2))) == 1
        assert bench.dropped == 0


class TestResultsDoNotDependOnBatches:
    """Records give the same results, however they are batched and however many are processed at a time."""

    @staticmethod
    def rows(seed: int) -> tuple[list[Row], list[Row]]:
        dice = random.Random(seed)
        time = 0
        rows: tuple[list[Row], list[Row]] = ([], [])
        for index in range(120):
            time += dice.choice((0, 0, 1, 7))
            headers = [("n", b"%d" % index)] if dice.random() < 0.2 else None
            value = dice.choice((None, f"v{index}", f"w{index}"))
            rows[dice.random() < 0.3].append(Row(dice.choice((None, "a", "b", "c", "d")), value, time, headers))
        return rows

    def outcome(self, seed: int, add: int, process: int) -> Any:
        """Returns all that was sent, in order, and the stores, counters and offsets afterwards."""
        bench = Bench(busy())
        stream, table = self.rows(seed)
        for topic, rows in (("in", stream), ("table", table)):
            for begin in range(0, len(rows), add):
                bench.add(topic, *rows[begin : begin + add])
        while bench.task.process(process, 0):
            pass
        sent = bench.collector.take() + bench.commit()
        rows_of = {store: list(bench.stores.store(store).scan(None, None)) for store in bench.state_manager.store_names}
        return sent, rows_of, bench.task.metrics(), bench.task.offsets()

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize(("add", "process"), [(1, 1), (1000, 1), (7, 3), (13, 1000), (1000, 17)])
    def test_all_cuts_are_equal(self, seed: int, add: int, process: int) -> None:
        print("seed", seed)
        assert self.outcome(seed, add, process) == self.outcome(seed, 1000, 1000)

    @pytest.mark.parametrize("seed", range(4))
    def test_commits_in_between_change_neither_stores_nor_what_the_uncached_send(self, seed: int) -> None:
        print("seed", seed)
        dice = random.Random(seed)
        plain, committing = Bench(busy()), Bench(busy(), {"statestore.cache.max.bytes": 200})
        sent: tuple[list[Any], list[Any]] = ([], [])
        for bench, into in zip((plain, committing), sent, strict=True):
            stream, table = self.rows(seed)
            bench.add("in", *stream)
            bench.add("table", *table)
            while bench.task.process(3, 0):
                if bench is committing and dice.random() < 0.3:
                    into += bench.commit()
            into += bench.collector.take() + bench.commit()
        for topic in ("joined", "folded-out", changelog("folded")):
            assert [e for e in sent[0] if e.topic == topic] == [e for e in sent[1] if e.topic == topic]
        for store in plain.state_manager.store_names:
            one, two = (list(bench.stores.store(store).scan(None, None)) for bench in (plain, committing))
            assert one == two
        last = {each.key: number(each.value) for each in sent[1] if each.topic == "counted"}
        assert last == {each.key: number(each.value) for each in sent[0] if each.topic == "counted"}


class TestQueries:
    @pytest.fixture
    def bench(self) -> Bench:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).group_by_key().count(Materialized.as_("counts"))
        bench = Bench(builder)
        bench.feed("in", ("a", "", 1), ("b", "", 2), ("c", "", 3))
        bench.commit()
        bench.feed("in", ("b", "", 5), ("d", "", 6))
        return bench

    def test_the_latest_and_the_committed_are_distinguished(self, bench: Bench) -> None:
        assert bench.look_up("counts", b"b", committed=False) == (b"b", 2, 5)
        assert bench.look_up("counts", b"b", committed=True) == (b"b", 1, 2)
        assert bench.look_up("counts", b"d", committed=True) is None
        assert bench.look_up("counts", b"zz", committed=False) is None

    def test_scans_have_ends_and_a_limit(self, bench: Bench) -> None:
        def keys(from_key: bytes | None, to_key: bytes | None, limit: int, committed: bool) -> str:
            rows = bench.scan("counts", from_key, to_key, limit, committed)
            return "".join(key.decode() for key, _, _ in rows)

        assert keys(None, None, 10, False) == "abcd"
        assert keys(None, None, 10, True) == "abc"
        assert keys(b"b", b"c", 10, False) == "bc"
        assert keys(b"b", None, 2, False) == "bc"
        assert keys(b"x", None, 2, False) == ""

    def test_an_unknown_store_is_a_key_error(self, bench: Bench) -> None:
        with pytest.raises(KeyError):
            bench.look_up("nothing", b"k", committed=False)
