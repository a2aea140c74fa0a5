"""The questions that a processor may ask its context, and the answers of its stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.errors import ProcessingError
from penstock.common.ids import TaskId
from penstock.common.records import Record
from penstock.common.serdes import Serdes
from penstock.state.builders import AnyStoreBuilder, StoreBuilder
from penstock.state.stores import Stores
from penstock.state.views import ValueAndTimestamp
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Produced
from penstock.topology.processor_api.processor import Processor, ProcessorContext, PunctuationType
from tests.tasks.bench import STRINGS, Bench, changelog, values

OUT: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.string())
Step = Callable[[Any, Record[Any, Any]], Any]


def plain(name: str = "store") -> StoreBuilder[str, str]:
    supplier = Stores.in_memory_key_value_store(name)
    return Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.string())


def timestamped(name: str = "store") -> StoreBuilder[str, str]:
    supplier = Stores.in_memory_key_value_store(name)
    return Stores.timestamped_key_value_store_builder(supplier, Serdes.string(), Serdes.string())


def calling(step: Step) -> Callable[[], Processor[Any, Any, Any, Any]]:
    """Returns a supplier of processors that do ``step`` with the context and each record."""

    class Calling(Processor[Any, Any, Any, Any]):
        def init(self, context: ProcessorContext[Any, Any]) -> None:
            self._context = context

        def process(self, record: Record[Any, Any]) -> None:
            step(self._context, record)

    return Calling


def bench_of(step: Step, *stores: AnyStoreBuilder, **config: Any) -> Bench:
    builder = StreamsBuilder()
    for store in stores:
        builder.add_state_store(store)
    made = builder.stream("in", STRINGS).process(calling(step), *(store.name for store in stores), named="mine")
    made.to("out", OUT)
    return Bench(builder, config)


def asked(question: Step, *stores: AnyStoreBuilder) -> Any:
    """Returns the answer to a processor that asks while it processes (k, v) of time 5 at offset 3."""
    answers: list[Any] = []
    bench = bench_of(lambda context, record: answers.append(question(context, record)), *stores)
    bench.add("in", ("k", "v", 5), offset=3)
    bench.run()
    return answers[0]


class TestContext:
    def test_the_context_returns_the_topic_partition_and_offset_of_the_record(self) -> None:
        assert tuple(asked(lambda c, r: c.record_metadata())) == ("in", 0, 3)

    def test_offsets_are_those_of_each_record_of_a_batch(self) -> None:
        seen: list[tuple[str, int]] = []
        bench = bench_of(lambda c, r: seen.append((r.value, c.record_metadata().offset)))
        bench.add("in", ("k", "a", 1), ("k", "b", 2), ("k", "c", 3), offset=10)
        bench.task.process(1, 0)
        bench.run()
        assert seen == [("a", 10), ("b", 11), ("c", 12)]

    def test_it_names_application_and_task(self) -> None:
        assert asked(lambda c, r: (c.application_id, c.task_id)) == ("app", TaskId(0, 0))

    def test_stream_time_includes_the_current_record_and_never_falls(self) -> None:
        times: list[int] = []
        bench = bench_of(lambda c, r: times.append(c.current_stream_time_ms()))
        bench.feed("in", ("k", "", 5), ("k", "", 3), ("k", "", 9))
        assert times == [5, 5, 9]

    def test_stream_time_is_minus_one_before_the_first_record(self) -> None:
        times: list[int] = []

        class Early(Processor[Any, Any, Any, Any]):
            def init(self, context: ProcessorContext[Any, Any]) -> None:
                times.append(context.current_stream_time_ms())

            def process(self, record: Record[Any, Any]) -> None: ...

        builder = StreamsBuilder()
        builder.stream("in", STRINGS).process(Early)
        Bench(builder)
        assert times == [-1]

    def test_system_time_is_the_hosts(self) -> None:
        times: list[int] = []
        bench = bench_of(lambda c, r: times.append(c.current_system_time_ms()))
        bench.add("in", ("k", "", 5))
        bench.run(wall_ms=777)
        assert times == [777]

    def test_a_commit_is_requested_until_it_is_done(self) -> None:
        bench = bench_of(lambda c, r: r.value == "now" and c.commit())
        bench.feed("in", ("k", "later", 1))
        assert not bench.task.commit_requested
        bench.feed("in", ("k", "now", 1))
        assert bench.task.commit_requested
        bench.commit()
        assert not bench.task.commit_requested

    def test_a_punctuator_has_no_record(self) -> None:
        seen: list[Any] = []

        class Ticking(Processor[Any, Any, Any, Any]):
            def init(self, context: ProcessorContext[Any, Any]) -> None:
                self.context = context
                context.schedule(10, PunctuationType.STREAM_TIME, self.tick)

            def tick(self, now: int) -> None:
                seen.append(self.context.record_metadata())
                self.context.forward(Record("tick", "t", now))

            def process(self, record: Record[Any, Any]) -> None: ...

        builder = StreamsBuilder()
        builder.stream("in", STRINGS).process(Ticking).to("out", OUT)
        (sent,) = Bench(builder).feed("in", ("k", "v", 5, [("h", b"1")]))
        assert seen == [None]
        assert (sent.timestamp, sent.headers) == (5, None)

    def test_nulls_reach_the_processor(self) -> None:
        seen: list[Any] = []
        bench_of(lambda c, r: seen.append((r.key, r.value, r.timestamp))).feed("in", (None, None, 4))
        assert seen == [(None, None, 4)]

    def test_each_task_has_its_own_processor(self) -> None:
        made: list[object] = []

        class Counted(Processor[Any, Any, Any, Any]):
            def init(self, context: ProcessorContext[Any, Any]) -> None:
                made.append(self)

            def process(self, record: Record[Any, Any]) -> None: ...

        builder = StreamsBuilder()
        builder.stream("in", STRINGS).process(Counted)
        Bench(builder)
        Bench(builder)
        assert made[0] is not made[1]


class TestForward:
    @staticmethod
    def two_children(step: Step) -> Bench:
        builder = StreamsBuilder()
        made = builder.stream("in", STRINGS).process(calling(step))
        made.map_values(lambda v: f"left {v}", named="left").to("out", OUT)
        made.map_values(lambda v: f"right {v}", named="right").to("out", OUT)
        return Bench(builder)

    def test_to_all_children_in_their_order(self) -> None:
        bench = self.two_children(lambda c, r: c.forward(r))
        assert values(bench.feed("in", ("k", "v", 1))) == ["left v", "right v"]

    def test_to_one_child(self) -> None:
        bench = self.two_children(lambda c, r: c.forward(r, child="right"))
        assert values(bench.feed("in", ("k", "v", 1))) == ["right v"]

    def test_any_number_of_times(self) -> None:
        bench = bench_of(lambda c, r: [c.forward(r.with_value(f"{n}")) for n in range(3)])
        assert values(bench.feed("in", ("k", "v", 1))) == ["0", "1", "2"]

    @pytest.mark.parametrize("given", ["k", ("k", "v"), None])
    def test_an_object_that_is_no_record_is_refused(self, given: Any) -> None:
        with pytest.raises(ProcessingError, match=r"forward takes a Record, such as record\.with_value"):
            bench_of(lambda c, r: c.forward(given, "v")).feed("in", ("k", "v", 1))

    def test_headers_travel_with_the_record(self) -> None:
        bench = bench_of(lambda c, r: c.forward(r))
        (sent,) = bench.feed("in", ("k", "v", 1, [("h", b"1")]))
        assert sent.headers == [("h", b"1")]

    def test_headers_and_time_of_what_is_forwarded_are_its_own(self) -> None:
        bench = bench_of(lambda c, r: c.forward(Record("x", "y", 99, [("new", None)])))
        (sent,) = bench.feed("in", ("k", "v", 1, [("h", b"1")]))
        assert (sent.key, sent.timestamp, sent.headers) == (b"x", 99, [("new", None)])

    def test_a_record_without_headers_takes_none_along(self) -> None:
        bench = bench_of(lambda c, r: c.forward(Record("x", "y", 99)))
        (sent,) = bench.feed("in", ("k", "v", 1, [("h", b"1")]))
        assert sent.headers is None

    def test_afterwards_the_context_is_what_it_was(self) -> None:
        def step(context: Any, record: Record[Any, Any]) -> None:
            context.forward(record.with_timestamp(99).with_headers([("x", None)]))
            context.get_state_store("store").put("k", "v")  # stamped with the current record's time

        bench = bench_of(step, plain())
        sent = bench.feed("in", ("k", "v", 5))
        assert [each.timestamp for each in sent if each.topic == changelog("store")] == [5]

    def test_it_is_done_when_forward_returns(self) -> None:
        order: list[str] = []
        builder = StreamsBuilder()

        def step(context: Any, record: Record[Any, Any]) -> None:
            order.append("before")
            context.forward(record)
            order.append("after")

        made = builder.stream("in", STRINGS).process(calling(step))
        made.peek(lambda k, v: order.append("child"))
        Bench(builder).feed("in", ("k", "v", 1))
        assert order == ["before", "child", "after"]


class TestStores:
    @staticmethod
    def filled(context: Any) -> Any:
        store = context.get_state_store("store")
        store.put_all([("b", "2"), ("a", "1"), ("c", "3"), ("ab", "12"), ("é", "9")])
        return store

    @pytest.mark.parametrize("committed", [False, True], ids=["in the buffer", "committed"])
    @pytest.mark.parametrize(
        ("read", "expected"),
        [
            (lambda s: s.all(), ["a", "ab", "b", "c", "é"]),
            (lambda s: s.reverse_all(), ["é", "c", "b", "ab", "a"]),
            (lambda s: s.range("ab", "c"), ["ab", "b", "c"]),
            (lambda s: s.reverse_range("ab", "c"), ["c", "b", "ab"]),
            (lambda s: s.range(None, "ab"), ["a", "ab"]),
            (lambda s: s.range("b", None), ["b", "c", "é"]),
            (lambda s: s.range("c", "a"), []),
            (lambda s: s.range("aa", "aaa"), []),
            (lambda s: s.prefix_scan(b"a"), ["a", "ab"]),
            (lambda s: s.prefix_scan("é".encode()), ["é"]),
            (lambda s: s.prefix_scan(b"x"), []),
        ],
    )
    def test_ranges_go_by_serialised_key(self, read: Any, expected: list[str], committed: bool) -> None:
        found: list[Any] = []

        def step(context: Any, record: Record[Any, Any]) -> None:
            if record.value == "fill":
                self.filled(context)
            else:
                found.extend(key for key, _ in read(context.get_state_store("store")))

        bench = bench_of(step, plain())
        bench.feed("in", ("k", "fill", 1))
        if committed:
            bench.commit()
        bench.feed("in", ("k", "read", 2))
        assert found == expected

    def test_an_iterator_sees_the_store_as_it_was_when_it_was_made(self) -> None:
        def step(context: Any, record: Record[Any, Any]) -> list[Any]:
            store = self.filled(context)
            iterators = store.all(), store.prefix_scan(b"a")
            store.put("aa", "new")
            store.delete("ab")
            return [[key for key, _ in each] for each in iterators]

        assert asked(step, plain()) == [["a", "ab", "b", "c", "é"], ["a", "ab"]]

    def test_a_value_that_was_put_is_found_and_a_deleted_one_is_not(self) -> None:
        def step(context: Any, record: Record[Any, Any]) -> list[Any]:
            store = context.get_state_store("store")
            store.put("k", "1")
            seen = [store.get("k"), store.delete("k"), store.get("k"), store.delete("k")]
            store.put("k", "2")
            store.put("k", None)
            return [*seen, store.get("k"), list(store.all())]

        assert asked(step, plain()) == ["1", "1", None, None, None, []]

    def test_put_if_absent_keeps_what_is_there(self) -> None:
        def step(context: Any, record: Record[Any, Any]) -> list[Any]:
            store = context.get_state_store("store")
            return [store.put_if_absent("k", "1"), store.put_if_absent("k", "2"), store.get("k")]

        assert asked(step, plain()) == [None, "1", "1"]

    def test_a_timestamped_store_keeps_the_time_it_is_given(self) -> None:
        def step(context: Any, record: Record[Any, Any]) -> list[Any]:
            store = context.get_state_store("store")
            store.put("k", ValueAndTimestamp("v", 1234))
            return [store.get("k"), list(store.all()), store.delete("k")]

        expected = ValueAndTimestamp("v", 1234)
        assert asked(step, timestamped()) == [expected, [("k", expected)], expected]

    def test_each_put_of_an_uncached_store_is_logged_at_once_at_the_records_time(self) -> None:
        def step(context: Any, record: Record[Any, Any]) -> None:
            store = context.get_state_store("store")
            store.put("k", record.value)
            store.put("k", None)

        sent = bench_of(step, plain()).feed("in", ("a", "v", 7))
        assert [(each.key, each.value, each.timestamp) for each in sent] == [(b"k", b"v", 7), (b"k", None, 7)]

    def test_a_cached_store_is_logged_once_at_the_commit(self) -> None:
        bench = bench_of(lambda c, r: c.get_state_store("store").put("k", r.value), plain().with_caching_enabled())
        assert bench.feed("in", ("a", "1", 7), ("a", "2", 8)) == []
        assert [(each.key, each.value, each.timestamp) for each in bench.commit()] == [(b"k", b"2", 8)]

    def test_a_timestamped_stores_changelog_carries_the_values_time(self) -> None:
        bench = bench_of(lambda c, r: c.get_state_store("store").put("k", ValueAndTimestamp("v", 1234)), timestamped())
        (sent,) = bench.feed("in", ("a", "", 7))
        assert (sent.value, sent.timestamp) == (b"v", 1234)

    def test_two_processors_share_a_store(self) -> None:
        seen: list[Any] = []
        builder = StreamsBuilder()
        builder.add_state_store(plain())
        stream = builder.stream("in", STRINGS)
        stream.process(calling(lambda c, r: c.get_state_store("store").put(r.key, r.value)), "store")
        stream.process(calling(lambda c, r: seen.append(c.get_state_store("store").get(r.key))), "store")
        Bench(builder).feed("in", ("k", "v", 1))
        assert seen == ["v"]

    def test_a_processor_may_read_the_store_of_a_named_table(self) -> None:
        seen: list[Any] = []
        builder = StreamsBuilder()
        builder.table("rows", STRINGS, materialized=Materialized.as_("rows"))
        builder.stream("in", STRINGS).process(
            calling(lambda c, r: seen.append(c.get_state_store("rows").get(r.key))), "rows"
        )
        bench = Bench(builder)
        bench.feed("rows", ("k", "v", 3))
        bench.feed("in", ("k", "", 4))
        assert seen == [ValueAndTimestamp("v", 3)]
