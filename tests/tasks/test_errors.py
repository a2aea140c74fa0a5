"""Records that cannot be handled: the names in the error, what is dropped, what is committed."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.errors import (
    ProcessingError,
    SerializationError,
    StateStoreCorruptError,
    TopologyError,
    UnknownStateStoreError,
)
from penstock.common.handlers import ErrorHandlerContext, ProcessingExceptionHandler, Response
from penstock.common.records import Record
from penstock.common.serdes import Serdes
from penstock.state.stores import Stores
from penstock.topology.dsl.kstream import KStream
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Grouped, Joined, Produced
from penstock.topology.processor_api.processor import Processor, ProcessorContext, PunctuationType
from penstock.topology.processor_api.processor_wrapper import Change
from tests.tasks.bench import STRINGS, Bench, Resume, values

STRING_OUT: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.string())


def explode(*given: Any) -> Any:
    """A user function that raises for "bad"."""
    if "bad" in given:
        raise LookupError("nothing of that kind")
    return given[-1]


def explode_to(result: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: (explode(*given), result(*given))[1]


def no_pair_for_bad(key: Any, value: Any) -> Any:
    return None if value == "bad" else (key, value)


class Fragile(Processor[Any, Any, Any, Any]):
    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self._context = context

    def process(self, record: Record[Any, Any]) -> None:
        explode(record.value)
        self._context.forward(record)


def joined(stream: KStream[Any, Any], table: KTable[Any, Any]) -> KStream[Any, Any]:
    return stream.join(table, lambda left, right: explode(left), Joined.with_())


Wire = Callable[[StreamsBuilder, KStream[Any, Any]], KStream[Any, Any]]

OPERATORS: dict[str, tuple[str, Wire]] = {
    "filter": ("KSTREAM-FILTER-", lambda b, s: s.filter(lambda k, v: bool(explode(k, v)))),
    "filter_not": ("KSTREAM-FILTER-", lambda b, s: s.filter_not(lambda k, v: not explode(k, v))),
    "map_values": ("KSTREAM-MAPVALUES-", lambda b, s: s.map_values(lambda v: explode(v))),
    "map_values with key": ("KSTREAM-MAPVALUES-", lambda b, s: s.map_values(lambda k, v: explode(k, v))),
    "map": ("KSTREAM-MAP-", lambda b, s: s.map(lambda k, v: (k, explode(v)))),
    "map that returns no pair": ("KSTREAM-MAP-", lambda b, s: s.map(no_pair_for_bad)),
    "select_key": ("KSTREAM-KEY-SELECT-", lambda b, s: s.select_key(lambda k, v: explode(v) and k)),
    "flat_map": ("KSTREAM-FLATMAP-", lambda b, s: s.flat_map(lambda k, v: [(k, explode(v))])),
    "flat_map that yields": ("KSTREAM-FLATMAP-", lambda b, s: s.flat_map(lambda k, v: ((k, explode(e)) for e in [v]))),
    "flat_map_values": ("KSTREAM-FLATMAPVALUES-", lambda b, s: s.flat_map_values(lambda v: [explode(v)])),
    "peek": ("KSTREAM-PEEK-", lambda b, s: s.peek(lambda k, v: explode(v))),
    "branch": (
        "b-",
        lambda b, s: s.split(named="b-").branch(lambda k, v: bool(explode(v))).default_branch()["b-1"],
    ),
    "process": ("KSTREAM-PROCESSOR-", lambda b, s: s.process(Fragile)),
    "aggregate": (
        "KSTREAM-AGGREGATE-",
        lambda b, s: s.group_by_key().aggregate(str, lambda k, v, a: explode(v), _uncached("a")).to_stream(),
    ),
    "initializer": (
        "KSTREAM-AGGREGATE-",
        lambda b, s: s.group_by_key().aggregate(_third_time_bad(), lambda k, v, a: v, _uncached("a")).to_stream(),
    ),
    "join": ("KSTREAM-JOIN-", lambda b, s: joined(s, b.table("table", STRINGS))),
    "table filter": (
        "KTABLE-FILTER-",
        lambda b, s: s.to_table(_uncached("t")).filter(lambda k, v: bool(explode(v))).to_stream(),
    ),
    "table map_values": (
        "KTABLE-MAPVALUES-",
        lambda b, s: s.to_table(_uncached("t")).map_values(lambda v: explode(v)).to_stream(),
    ),
}


def _uncached(store: str) -> Materialized[Any, Any]:
    return Materialized.as_(store).with_value_serde(Serdes.string()).with_caching_disabled()


def _third_time_bad() -> Callable[[], str]:
    """Returns an initialiser that raises for the third row, "bad": each row needs a fresh aggregate."""
    calls: list[int] = []

    def initial() -> str:
        calls.append(1)
        return explode("bad") if len(calls) == 3 else ""

    return initial


ROWS = [("k1", "fine", 10), ("k2", "also", 11), ("k3", "bad", 12), ("k4", "last", 13)]


def wired(wire: Wire, config: dict[str, Any] | None = None) -> Bench:
    builder = StreamsBuilder()
    stream = wire(builder, builder.stream("in", STRINGS))
    stream.to("out", STRING_OUT)
    bench = Bench(builder, config)
    if "table" in bench.program.sources:
        bench.feed("table", *((key, "t", 0) for key, _, _ in ROWS))
    return bench


class TestUserFunctions:
    @pytest.mark.parametrize("kind", OPERATORS)
    def test_an_error_names_operator_and_record_and_keeps_the_traceback(self, kind: str) -> None:
        name, wire = OPERATORS[kind]
        bench = wired(wire)
        bench.add("in", *ROWS, offset=40)
        with pytest.raises(ProcessingError) as caught:
            bench.run()
        error = caught.value
        assert error.operator is not None
        assert error.operator.startswith(name)
        assert (error.topic, error.partition, error.offset) == ("in", 0, 42)
        assert error.key in ("k3", b"k3")  # bytes where no user function asks for keys
        assert isinstance(error.__cause__, LookupError | TypeError)
        assert __file__ in "".join(traceback.format_exception(error.__cause__)) or kind == "map that returns no pair"
        for part in (error.operator, "topic in, partition 0, offset 42", "k3"):
            assert part in str(error)

    @pytest.mark.parametrize("kind", OPERATORS)
    def test_with_resume_only_that_record_is_dropped_and_counted(self, kind: str) -> None:
        name, wire = OPERATORS[kind]
        handler = Resume()
        bench = wired(wire, {"processing.exception.handler": handler})
        sent = [each for each in bench.feed("in", *ROWS) if each.topic == "out"]
        assert values(sent) == ["fine", "also", "last"]
        assert bench.dropped == 1
        (caught,) = handler.caught
        assert caught.context.processor_node_id.startswith(name)
        assert (caught.context.offset, caught.context.timestamp) == (2, 12)
        assert caught.record is not None
        assert caught.record.key in ("k3", b"k3")  # bytes where no user function asks for keys
        assert caught.record.value == (Change("bad", None) if kind.startswith("table ") else "bad")
        assert caught.record.timestamp == 12
        assert (caught.context.source_raw_key, caught.context.source_raw_value) == (b"k3", b"bad")
        assert bench.offset("in") == 4

    def test_a_reducer_that_raises_leaves_the_aggregate_as_it_was(self) -> None:
        builder = StreamsBuilder()
        grouped = builder.stream("in", STRINGS).group_by_key()
        grouped.reduce(lambda a, v: a + explode(v), _uncached("r")).to_stream().to("out", STRING_OUT)
        handler = Resume()
        bench = Bench(builder, {"processing.exception.handler": handler})
        sent = bench.feed("in", ("k", "a", 1), ("k", "bad", 2), ("k", "b", 3))
        assert values([each for each in sent if each.topic == "out"]) == ["a", "ab"]
        (caught,) = handler.caught
        assert (caught.context.offset, caught.context.processor_node_id) == (1, "KSTREAM-REDUCE-0000000001")

    def test_records_forwarded_before_the_error_stay_sent(self) -> None:
        builder = StreamsBuilder()
        stream = builder.stream("in", STRINGS)
        stream.to("copy", STRING_OUT)
        stream.map_values(lambda v: explode(v)).to("out", STRING_OUT)
        bench = Bench(builder, {"processing.exception.handler": Resume()})
        sent = bench.feed("in", ("k", "bad", 1))
        assert [each.topic for each in sent] == ["copy"]

    def test_siblings_of_the_failed_operator_still_get_the_record(self) -> None:
        builder = StreamsBuilder()
        stream = builder.stream("in", STRINGS)
        stream.map_values(lambda v: explode(v)).to("out", STRING_OUT)
        stream.to("copy", STRING_OUT)
        bench = Bench(builder, {"processing.exception.handler": Resume()})
        assert [each.topic for each in bench.feed("in", ("k", "bad", 1))] == ["copy"]

    def test_one_bad_value_of_several_is_dropped_alone(self) -> None:
        builder = StreamsBuilder()
        words = builder.stream("in", STRINGS).flat_map_values(lambda v: v.split())
        words.map_values(lambda v: explode(v)).to("out", STRING_OUT)
        bench = Bench(builder, {"processing.exception.handler": Resume()})
        assert values(bench.feed("in", ("k", "a bad b bad c", 1))) == ["a", "b", "c"]
        assert bench.dropped == 2

    def test_an_error_behind_a_repartition_names_the_internal_topic(self) -> None:
        builder = StreamsBuilder()
        grouped = builder.stream("in", STRINGS).group_by(lambda k, v: v, Grouped.as_("words"))
        grouped.reduce(lambda a, v: explode("bad"), Materialized.with_(Serdes.string(), Serdes.string()))
        bench = Bench(builder, {"default.key.serde": Serdes.string(), "default.value.serde": Serdes.string()})
        bench.add("app-words-repartition", ("k", "v", 1), ("k", "v", 1), offset=7)
        with pytest.raises(ProcessingError) as caught:
            bench.run()
        assert (caught.value.topic, caught.value.offset) == ("app-words-repartition", 8)

    def test_in_the_flush_of_a_cache_the_operator_is_named(self) -> None:
        builder = StreamsBuilder()
        counts = builder.stream("in", STRINGS).group_by_key().count()
        counts.to_stream().map_values(lambda v: explode("bad"), named="downstream")
        bench = Bench(builder)
        bench.feed("in", ("k", "v", 1))
        with pytest.raises(ProcessingError, match="operator downstream"):
            bench.flush()

    def test_the_error_survives_pickling(self) -> None:
        bench = wired(OPERATORS["peek"][1])
        bench.add("in", *ROWS)
        with pytest.raises(ProcessingError) as caught:
            bench.run()
        copy = pickle.loads(pickle.dumps(caught.value))
        assert str(copy) == str(caught.value)
        assert (copy.offset, copy.key) == (2, "k3")


class TestProcessors:
    def bench(self, process: Callable[[Any, Record[Any, Any]], Any], handler: Any = None) -> Bench:
        class Calling(Processor[Any, Any, Any, Any]):
            def init(self, context: ProcessorContext[Any, Any]) -> None:
                self.context = context

            def process(self, record: Record[Any, Any]) -> None:
                process(self.context, record)

        builder = StreamsBuilder()
        supplier = Stores.in_memory_key_value_store("store")
        builder.add_state_store(Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.string()))
        builder.add_state_store(
            Stores.key_value_store_builder(
                Stores.in_memory_key_value_store("foreign"), Serdes.string(), Serdes.string()
            )
        )
        stream = builder.stream("in", STRINGS)
        stream.process(Calling, "store", named="mine").to("out", STRING_OUT)
        stream.process(Fragile, "foreign")
        return Bench(builder, {"processing.exception.handler": handler} if handler else None)

    @pytest.mark.parametrize(
        ("process", "cause", "words"),
        [
            (lambda c, r: c.forward(r, child="nobody"), TopologyError, "no child 'nobody'"),
            (lambda c, r: c.get_state_store("foreign"), UnknownStateStoreError, "connected: store"),
            (lambda c, r: c.get_state_store("store").get(None), SerializationError, "may not be None"),
            (lambda c, r: c.get_state_store("store").put(None, "x"), SerializationError, "may not be None"),
            (lambda c, r: c.get_state_store("store").put("k", 7), SerializationError, r"string cannot write 7 \(int\)"),
            (lambda c, r: c.get_state_store("store").put(7, "v"), SerializationError, "store: key: the serde string"),
            (lambda c, r: c.forward(r.with_timestamp(-1)), ValueError, "negative"),
            (lambda c, r: c.schedule(-1, PunctuationType.STREAM_TIME, print), ValueError, "negative"),
        ],
    )
    def test_misuse_of_the_context_is_an_error_of_that_processor(
        self, process: Callable[[Any, Record[Any, Any]], Any], cause: type[Exception], words: str
    ) -> None:
        bench = self.bench(process)
        bench.add("in", ("k", "v", 1), offset=5)
        with pytest.raises(ProcessingError, match=words) as caught:
            bench.run()
        assert isinstance(caught.value.__cause__, cause)
        assert (caught.value.operator, caught.value.topic, caught.value.offset) == ("mine", "in", 5)

    def test_a_value_the_store_refused_is_not_in_it_after_resume(self) -> None:
        bench = self.bench(lambda c, r: c.get_state_store("store").put("k", 7), Resume())
        bench.feed("in", ("k", "v", 1))
        assert bench.buffer("store").get(b"k") is None
        bench.commit()
        assert bench.stores.store("store").get(b"k") is None

    def test_an_error_below_a_processor_names_the_lower_operator_once(self) -> None:
        handler = Resume()
        builder = StreamsBuilder()
        through = builder.stream("in", STRINGS).process(Passing, named="upper")
        through.map_values(lambda v: explode(v), named="lower").to("out", STRING_OUT)
        bench = Bench(builder, {"processing.exception.handler": handler})
        bench.feed("in", ("k", "bad", 1), ("k", "ok", 2))
        assert [caught.context.processor_node_id for caught in handler.caught] == ["lower"]
        assert bench.dropped == 1

    def test_an_error_below_that_fails_is_not_offered_again_to_the_handler(self) -> None:
        asked: list[str] = []

        class OnlyUpper(ProcessingExceptionHandler):
            def handle_error(self, context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
                asked.append(context.processor_node_id)
                return Response.resume() if context.processor_node_id == "upper" else Response.fail()

        builder = StreamsBuilder()
        builder.stream("in", STRINGS).process(Passing, named="upper").map_values(lambda v: explode(v), named="lower")
        bench = Bench(builder, {"processing.exception.handler": OnlyUpper()})
        bench.add("in", ("k", "bad", 1))
        with pytest.raises(ProcessingError, match="operator lower"):
            bench.run()
        assert asked == ["lower"]

    def test_a_corrupt_store_is_not_an_error_of_the_user_function(self) -> None:
        def read_corrupt(context: Any, record: Record[Any, Any]) -> None:
            raise StateStoreCorruptError("the rows are gone")

        bench = self.bench(read_corrupt, Resume())
        bench.add("in", ("k", "v", 1))
        with pytest.raises(StateStoreCorruptError):
            bench.run()

    def test_init_that_raises_is_named(self) -> None:
        class Unready(Processor[Any, Any, Any, Any]):
            def init(self, context: ProcessorContext[Any, Any]) -> None:
                raise OSError("no such model")

            def process(self, record: Record[Any, Any]) -> None: ...

        builder = StreamsBuilder()
        builder.stream("in", STRINGS).process(Unready, named="scorer")
        with pytest.raises(ProcessingError, match=r"no such model.*operator scorer") as caught:
            Bench(builder)
        assert isinstance(caught.value.__cause__, OSError)

    @pytest.mark.parametrize("clock", PunctuationType)
    def test_a_punctuator_that_raises_is_an_error_of_its_processor(self, clock: PunctuationType) -> None:
        handler = Resume()
        bench = self.punctuating(clock, {"processing.exception.handler": handler})
        bench.feed("in", ("k", "v", 50))
        bench.task.punctuate(50)
        (caught,) = handler.caught
        assert isinstance(caught.error, LookupError)
        context = caught.context
        assert (context.processor_node_id, context.topic, context.partition, context.offset) == ("ticker", None, -1, -1)
        assert (context.timestamp, caught.record) == (50, None)
        assert bench.dropped == 1

    def test_a_punctuator_that_raises_ends_the_task_by_default(self) -> None:
        bench = self.punctuating(PunctuationType.WALL_CLOCK_TIME, {})
        with pytest.raises(ProcessingError, match="operator ticker"):
            bench.task.punctuate(50)

    @staticmethod
    def punctuating(clock: PunctuationType, config: dict[str, Any]) -> Bench:
        class Ticker(Processor[Any, Any, Any, Any]):
            def init(self, context: ProcessorContext[Any, Any]) -> None:
                context.schedule(50, clock, lambda now: explode("bad"))

            def process(self, record: Record[Any, Any]) -> None: ...

        builder = StreamsBuilder()
        builder.stream("in", STRINGS).process(Ticker, named="ticker")
        return Bench(builder, config)

    def test_all_are_closed_and_so_are_the_stores_when_one_close_raises(self) -> None:
        closed: list[str] = []

        def closing(name: str) -> Callable[[], Processor[Any, Any, Any, Any]]:
            class Closing(Fragile):
                def close(self) -> None:
                    closed.append(name)
                    raise RuntimeError(name)

            return Closing

        builder = StreamsBuilder()
        builder.stream("in", STRINGS).process(closing("one")).process(closing("two"))
        bench = Bench(builder)
        with pytest.raises(RuntimeError):
            bench.task.close()
        assert closed == ["one", "two"]


class Passing(Processor[Any, Any, Any, Any]):
    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self._context = context

    def process(self, record: Record[Any, Any]) -> None:
        self._context.forward(record)
