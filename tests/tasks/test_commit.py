"""The writes of a commit, their order, and the state that a task finds when it starts again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import Record
from penstock.common.serdes import Serde, Serdes
from penstock.state.stores import Stores
from penstock.state.write_buffer.write_buffer import FLUSH_STEP_ENTRIES
from penstock.tasks.offsets import decode_partition_time, encode_partition_time
from penstock.tasks.program import Changelog
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Produced
from penstock.topology.processor_api.processor import Processor, ProcessorContext
from tests.tasks.bench import STRINGS, Bench, Sent, changelog, number

COUNTS: Materialized[Any, Any] = Materialized.as_("counts").with_value_serde(Serdes.long())
OUT: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.long())
IN = TopicPartition("in", 0)


def counting(caching: bool = True) -> StreamsBuilder:
    """in -> count in "counts" -> out."""
    builder = StreamsBuilder()
    how = COUNTS if caching else COUNTS.with_caching_disabled()
    builder.stream("in", STRINGS).group_by_key().count(how).to_stream().to("out", OUT)
    return builder


def table(caching: bool = True) -> StreamsBuilder:
    """in, read as table "rows" -> out."""
    builder = StreamsBuilder()
    how: Materialized[Any, Any] = Materialized.as_("rows")
    kept = builder.table("in", STRINGS, materialized=how if caching else how.with_caching_disabled())
    kept.to_stream().to("out", Produced.with_(Serdes.string(), Serdes.string()))
    return builder


def shown(sent: list[Sent]) -> list[tuple[str, bytes | None, int | None, int]]:
    """Topic, key, count, timestamp."""
    return [(each.topic, each.key, number(each.value), each.timestamp) for each in sent]


class TestCaching:
    def test_one_update_per_key_goes_to_changelog_and_downstream_at_the_commit(self) -> None:
        bench = Bench(counting())
        assert bench.feed("in", ("a", "x", 5), ("a", "y", 9), ("a", "z", 7)) == []
        assert shown(bench.commit()) == [(changelog("counts"), b"a", 3, 9), ("out", b"a", 3, 9)]

    def test_updates_come_in_the_order_of_the_last_one_of_each_key(self) -> None:
        bench = Bench(counting())
        bench.feed("in", ("a", "", 1), ("b", "", 2), ("c", "", 3), ("a", "", 4))
        assert [each.key for each in bench.commit() if each.topic == "out"] == [b"b", b"c", b"a"]

    def test_a_table_too_is_flushed_in_the_order_of_its_last_updates(self) -> None:
        bench = Bench(table())
        bench.feed("in", ("a", "1", 1), ("b", "2", 2), ("c", "3", 3), ("a", "4", 4))
        assert [each.key for each in bench.commit() if each.topic == "out"] == [b"b", b"c", b"a"]

    def test_changelog_and_downstream_alternate_key_by_key(self) -> None:
        bench = Bench(counting())
        bench.feed("in", ("a", "", 1), ("b", "", 2))
        assert [each.topic for each in bench.commit()] == [changelog("counts"), "out"] * 2

    def test_downstream_sees_the_headers_of_the_last_update(self) -> None:
        bench = Bench(counting())
        bench.feed("in", ("a", "", 1, [("n", b"1")]), ("a", "", 2, [("n", b"2")]))
        sent = {each.topic: each.headers for each in bench.commit()}
        assert sent == {changelog("counts"): None, "out": [("n", b"2")]}

    def test_headers_of_a_flush_do_not_leak_into_the_next_record(self) -> None:
        builder = counting()
        builder.stream("plain", STRINGS).to("copy", Produced.with_(Serdes.string(), Serdes.string()))
        bench = Bench(builder)
        bench.feed("in", ("a", "", 1, [("n", b"1")]))
        bench.commit()
        (copy,) = bench.feed("plain", ("k", "v", 1))
        assert copy.headers is None

    def test_a_commit_without_updates_sends_nothing(self) -> None:
        bench = Bench(counting())
        bench.feed("in", ("a", "", 1))
        bench.commit()
        assert bench.commit() == []

    def test_a_key_that_came_and_went_within_one_commit_is_silent(self) -> None:
        bench = Bench(table())
        bench.feed("in", ("a", "v", 1), ("a", None, 2))
        assert bench.commit() == []

    def test_a_tombstone_for_a_key_that_never_was_is_silent(self) -> None:
        bench = Bench(table())
        bench.feed("in", ("a", None, 2))
        assert bench.commit() == []

    def test_a_tombstone_for_a_committed_key_goes_to_changelog_and_downstream(self) -> None:
        bench = Bench(table())
        bench.feed("in", ("a", "v", 1))
        bench.commit()
        bench.feed("in", ("a", None, 2))
        assert [(each.topic, each.value) for each in bench.commit()] == [(changelog("rows"), None), ("out", None)]
        assert bench.stores.store("rows").get(b"a") is None

    def test_cache_bytes_grow_with_updates_and_fall_to_nothing_at_the_commit(self) -> None:
        bench = Bench(counting())
        assert bench.state_manager.cache_bytes() == 0
        bench.feed("in", *((f"k{n}", "", n) for n in range(10)))
        ten = bench.state_manager.cache_bytes()
        bench.feed("in", *((f"k{n}", "", n) for n in range(10)))
        assert bench.state_manager.cache_bytes() == ten > 10 * len("k0")
        bench.commit()
        assert bench.state_manager.cache_bytes() == 0

    def test_cache_size_zero_is_no_caching(self) -> None:
        builder = counting()
        bench = Bench(builder, {"statestore.cache.max.bytes": 0})
        assert len(bench.feed("in", ("a", "", 1), ("a", "", 2))) == 4
        assert bench.commit() == []


class TestNoCaching:
    def test_each_update_goes_out_at_once(self) -> None:
        bench = Bench(counting(caching=False))
        sent = bench.feed("in", ("a", "", 5), ("a", "", 3))
        log = changelog("counts")
        assert shown(sent) == [(log, b"a", 1, 5), ("out", b"a", 1, 5), (log, b"a", 2, 5), ("out", b"a", 2, 5)]
        assert bench.commit() == []

    def test_a_tombstone_is_sent_even_for_a_key_that_never_was(self) -> None:
        bench = Bench(table(caching=False))
        sent = bench.feed("in", ("a", None, 2))
        assert [(each.topic, each.value) for each in sent] == [(changelog("rows"), None), ("out", None)]

    def test_nothing_is_in_the_store_before_the_commit(self) -> None:
        bench = Bench(counting(caching=False))
        bench.feed("in", ("a", "", 5))
        assert bench.stores.store("counts").get(b"a") is None
        bench.commit({"counts": 1})
        assert bench.stores.store("counts").get(b"a") == (5).to_bytes(8, "big") + (1).to_bytes(8, "big")
        assert bench.stores.changelog_offset("counts") == 1


class TestStoresThatFeedEachOther:
    """A processor below a cached table writes to a store that the commit flushes before that table."""

    @staticmethod
    def builder() -> StreamsBuilder:
        class Remember(Processor[Any, Any, Any, Any]):
            def init(self, context: ProcessorContext[Any, Any]) -> None:
                self._store = context.get_state_store("memory")

            def process(self, record: Record[Any, Any]) -> None:
                self._store.put(record.key, str(record.value))

        builder = StreamsBuilder()
        supplier = Stores.in_memory_key_value_store("memory")
        builder.add_state_store(Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.string()))
        stream = builder.stream("in", STRINGS)
        stream.filter(lambda k, v: k == "first").process(Remember, "memory")
        stream.group_by_key().count(COUNTS).to_stream().process(Remember, "memory")
        return builder

    def test_records_that_a_flush_writes_to_another_store_are_in_the_same_commit(self) -> None:
        bench = Bench(self.builder())
        assert bench.state_manager.store_names == ("memory", "counts")
        bench.feed("in", ("a", "", 1), ("a", "", 2))
        sent = bench.commit()
        assert [(each.topic, each.key) for each in sent] == [(changelog("counts"), b"a"), (changelog("memory"), b"a")]
        assert bench.stores.store("memory").get(b"a") == b"2"

    def test_nothing_is_left_over_for_the_next_commit(self) -> None:
        bench = Bench(self.builder())
        bench.feed("in", ("a", "", 1))
        bench.commit()
        assert bench.buffer("memory").dirty == {}
        assert bench.commit() == []


class TestQueriesDuringACommit:
    @pytest.fixture
    def bench(self) -> Bench:
        bench = Bench(counting())
        bench.feed("in", *((key, "", 1) for key in self.keys()))
        bench.commit()
        bench.feed("in", *((key, "", 2) for key in self.keys()))
        return bench

    @staticmethod
    def keys() -> list[str]:
        return [f"{n:05}" for n in range(2 * FLUSH_STEP_ENTRIES + 10)]

    def steps(self, bench: Bench) -> Iterator[str]:
        yield "before"
        for _ in bench.task.prepare_commit():
            yield "while"
        yield "flushed"
        bench.task.complete_commit({})
        yield "after"

    def test_the_number_of_entries_never_drops(self) -> None:
        bench = Bench(counting())
        bench.feed("in", *((key, "", 1) for key in self.keys()))
        for step in self.steps(bench):
            assert bench.count("counts", committed=False) == len(self.keys()), step

    def test_the_latest_is_seen_at_every_step(self, bench: Bench) -> None:
        steps = []
        for step in self.steps(bench):
            steps.append(step)
            rows = list(bench.scan("counts", None, None, 10**6, committed=False))
            assert [key.decode() for key, _, _ in rows] == self.keys()
            assert {value for _, value, _ in rows} == {2}
            assert bench.look_up("counts", b"00000", committed=False) == (b"00000", 2, 2)
        assert steps == ["before", *["while"] * 4, "flushed", "after"]

    def test_the_committed_is_seen_until_the_write(self, bench: Bench) -> None:
        for step in self.steps(bench):
            expected = 2 if step == "after" else 1
            rows = list(bench.scan("counts", None, None, 10**6, committed=True))
            assert {value for _, value, _ in rows} == {expected}
            assert bench.look_up("counts", b"00000", committed=True) == (b"00000", expected, expected)


class TestOffsets:
    def test_the_next_record_to_process_is_committed_not_the_next_to_add(self) -> None:
        bench = Bench(counting())
        bench.add("in", ("a", "", 1), ("a", "", 2), ("a", "", 3), offset=10)
        assert bench.task.offsets() == {}
        bench.task.process(2, 0)
        assert bench.offset("in") == 12
        assert bench.task.queued(IN) == 1

    def test_gaps_in_offsets_are_no_records(self) -> None:
        bench = Bench(counting())
        bench.add("in", ("a", "", 1), offset=10)
        bench.add("in", ("a", "", 2), offset=20)
        bench.run()
        assert bench.offset("in") == 21

    def test_the_partitions_time_is_committed_beside_the_offset(self) -> None:
        bench = Bench(counting())
        bench.feed("in", ("a", "", 10), ("a", "", 4))
        assert bench.task.offsets() == {IN: CommittedOffset(2, "AgAAAAAAAAAK")}

    def test_a_task_that_resumes_continues_with_offset_and_time(self) -> None:
        bench = Bench(counting(), start=False)
        bench.task.resume({IN: CommittedOffset(7, encode_partition_time(1000))})
        bench.task.init(0)
        assert bench.task.offsets() == {IN: CommittedOffset(7, encode_partition_time(1000))}
        assert bench.task.metrics().stream_time_ms == 1000
        bench.add("in", ("a", "", 3), offset=7)
        bench.run()
        assert bench.task.offsets() == {IN: CommittedOffset(8, encode_partition_time(1000))}

    def test_committed_offsets_of_other_partitions_are_ignored(self) -> None:
        bench = Bench(counting(), start=False)
        bench.task.resume({TopicPartition("other", 0): CommittedOffset(7)})
        assert bench.task.offsets() == {}


class TestMetadata:
    def test_time_10_is_kafka_streams_text(self) -> None:
        assert encode_partition_time(10) == "AgAAAAAAAAAK"

    @pytest.mark.parametrize(
        ("text", "time"),
        [
            ("AgAAAAAAAAAK", 10),
            ("AgAAAAAAAAAKAAAAAQAAAAFzAAAAAAAAAAc=", 10),  # with the closed windows of store "s"
            ("AQAAAAAAAAAK", 10),  # version 1
            ("AwAAAAAAAAAK", -1),  # a version to come
            ("", -1),
            ("AgAAAA==", -1),
            ("not base64!", -1),
            ("é", -1),
        ],
    )
    def test_decoding(self, text: str, time: int) -> None:
        assert decode_partition_time(text) == time

    @pytest.mark.parametrize("time", [-1, 0, 1, 1_700_000_000_000, 2**62])
    def test_a_partition_time_survives_a_round_trip(self, time: int) -> None:
        assert decode_partition_time(encode_partition_time(time)) == time


class TestRestore:
    def test_changelog_rows_are_what_the_task_continues_from(self) -> None:
        bench = Bench(counting(), start=False)
        one, three = (n.to_bytes(8, "big") for n in (1, 3))
        bench.state_manager.restore(
            "counts", [b"a", b"b", b"a", b"gone", b"gone"], [one, one, three, one, None], [5, 6, 9, 1, 2], 5
        )
        bench.task.init(0)
        assert bench.stores.changelog_offset("counts") == 5
        assert bench.stores.store("counts").get(b"gone") is None
        bench.feed("in", ("a", "", 7), ("b", "", 8))
        log = changelog("counts")
        assert shown(bench.commit()) == [(log, b"a", 4, 9), ("out", b"a", 4, 9), (log, b"b", 2, 8), ("out", b"b", 2, 8)]

    def test_nothing_is_sent_by_a_restore(self) -> None:
        bench = Bench(counting(), start=False)
        bench.state_manager.restore("counts", [b"a"], [bytes(8)], [5], 1)
        assert bench.collector.take() == []
        assert bench.commit() == []

    def test_a_value_read_before_a_restore_is_read_again(self) -> None:
        bench = Bench(counting(), start=False)
        assert bench.buffer("counts").get(b"a") is None
        bench.state_manager.restore("counts", [b"a"], [(3).to_bytes(8, "big")], [5], 1)
        assert bench.look_up("counts", b"a", committed=False) == (b"a", 3, 5)

    def test_a_source_topic_may_hold_null_keys(self) -> None:
        bench = Bench(table(), start=False)
        bench.state_manager.restore("rows", [None, b"a"], [b"v", b"w"], [1, 2], 2)
        assert [key for key, _ in bench.buffer("rows").scan(None, None)] == [b"a"]

    def test_a_task_on_the_same_stores_sees_what_was_committed_and_only_that(self) -> None:
        first = Bench(counting())
        first.feed("in", ("a", "", 1))
        first.commit({"counts": 1})
        first.feed("in", ("a", "", 2), ("b", "", 2))
        first.flush()  # and here the process dies: changelog flushed, nothing committed
        second = Bench(counting(), stores=first.stores)
        assert second.stores.changelog_offset("counts") == 1
        rows = [(key, entry[0]) for key, entry in second.buffer("counts").scan(None, None)]
        assert rows == [(b"a", 1)]

    def test_a_crash_between_changelog_and_commit_is_mended_by_the_changelogs_tail(self) -> None:
        first = Bench(counting())
        first.feed("in", ("a", "", 1))
        log = first.commit({"counts": 1})
        first.feed("in", ("a", "", 2), ("b", "", 3))
        log += first.flush()
        tail = [each for each in log if each.topic == changelog("counts")][1:]
        second = Bench(counting(), stores=first.stores, start=False)
        second.state_manager.restore(
            "counts", [e.key for e in tail], [e.value for e in tail], [e.timestamp for e in tail], 3
        )
        second.task.init(0)
        rows = [(key, *entry[:2]) for key, entry in second.buffer("counts").scan(None, None)]
        assert rows == [(b"a", 2, 2), (b"b", 1, 3)]
        assert second.stores.changelog_offset("counts") == 3


class TestChangelogs:
    def test_the_source_topic_restores_a_table_where_it_is_reused(self) -> None:
        bench = Bench(table(), {"topology.optimization": "all"})
        assert bench.program.changelogs == {"rows": Changelog("in", is_source_topic=True)}
        bench.feed("in", ("a", "v", 1))
        assert [each.topic for each in bench.commit()] == ["out"]

    def test_a_store_without_logging_has_none(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).group_by_key().count(COUNTS.with_logging_disabled())
        bench = Bench(builder)
        assert bench.program.changelogs == {}
        bench.feed("in", ("a", "v", 1))
        assert bench.commit() == []
        assert bench.stores.store("counts").get(b"a") is not None

    def test_changelog_records_go_to_the_tasks_own_partition(self) -> None:
        bench = Bench(counting())
        bench.feed("in", ("a", "", 1))
        assert {each.topic: each.partition for each in bench.commit()} == {changelog("counts"): 0, "out": -1}


class TestForgettingObjects:
    def test_after_a_commit_a_store_shows_what_a_restart_would(self) -> None:
        """This serde has no tuples: the object that was put and what is on disk are not the same."""
        builder = StreamsBuilder()
        listed = Serde("listed", lambda pair: json.dumps(pair).encode(), json.loads)
        how: Materialized[Any, Any] = Materialized.as_("pairs").with_value_serde(listed)
        builder.stream("in", STRINGS).group_by_key().aggregate(lambda: (0,), lambda key, value, old: (1, 2), how)
        bench = Bench(builder)
        bench.feed("in", ("a", "x", 1))
        bench.commit()
        bench.state_manager.forget_objects()
        entry = bench.buffer("pairs").get(b"a")
        assert entry is not None
        assert entry[0] == [1, 2]
