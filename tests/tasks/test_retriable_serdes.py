"""A serde that cannot answer now: no record is taken for a bad one, and nothing is lost or overtaken."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.common.errors import RetriableError
from penstock.common.ids import TopicPartition
from penstock.common.patience import Patience
from penstock.common.serdes import Serde, Serdes
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.options import Consumed, Produced
from tests.tasks.bench import STRINGS, Bench, Resume, values

IN, OTHER = TopicPartition("in", 0), TopicPartition("other", 0)
OUT: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.string())


class Registry:
    """A schema registry that is away while ``up`` is false; it never knows the schema of ``unknown``."""

    def __init__(self) -> None:
        self.up = True
        self.calls = 0
        self.strings = Serde("registered", self.serialize, self.deserialize)

    def ask(self) -> None:
        self.calls += 1
        if not self.up:
            raise RetriableError("the schema registry does not answer")

    def serialize(self, value: Any) -> bytes:
        self.ask()
        return str(value).encode()

    def deserialize(self, data: bytes) -> str:
        self.ask()
        if data == b"bad":
            raise ValueError("no good")
        return data.decode()


def reading(registry: Registry, config: dict[str, Any] | None = None) -> Bench:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.string(), registry.strings)).to("out", OUT)
    return Bench(builder, config)


class TestDeserializers:
    def test_the_partition_waits_without_asking_a_handler_and_continues_in_order(self) -> None:
        registry, handler = Registry(), Resume()
        bench = reading(registry, {"deserialization.exception.handler": handler})
        bench.feed("in", ("k", "a", 1))
        registry.up = False
        bench.add("in", ("k", "b", 2), ("k", "c", 3))
        bench.add("in", ("k", "d", 4))
        assert bench.run(wall_ms=0) == 0
        ((offset, error),) = bench.task.waits_for_serdes.values()
        assert (offset, str(error)) == (1, "the schema registry does not answer")
        assert (bench.task.queued(IN), bench.offset("in")) == (3, 1)
        registry.up = True
        assert bench.run(wall_ms=49) == 0
        assert bench.run(wall_ms=50) == 3
        assert values(bench.collector.take()) == ["b", "c", "d"]
        assert (bench.task.queued(IN), bench.offset("in"), bench.task.waits_for_serdes) == (0, 4, {})
        assert handler.caught == []

    def test_records_before_the_first_that_cannot_be_decoded_are_processed(self) -> None:
        """The registry goes away in the middle of a batch."""
        registry = Registry()
        ask = registry.deserialize

        def at_most_three(data: bytes) -> str:
            registry.up = registry.calls != 3 + 3  # the column of three first, then one by one
            return ask(data)

        registry.strings = Serde("registered", registry.serialize, at_most_three)
        bench = reading(registry)
        registry.up = False
        bench.add("in", *[("k", text, 1) for text in "abcdef"])
        bench.run()
        sent = values(bench.collector.take())
        assert sent == list("abcdef")[: len(sent)]
        registry.strings = Serde("registered", registry.serialize, ask)
        for wall_ms in range(0, 5000, 50):
            bench.run(wall_ms)
        assert sent + values(bench.collector.take()) == list("abcdef")

    def test_the_pause_grows_to_a_second_and_begins_again_after_an_answer(self) -> None:
        registry = Registry()
        bench = reading(registry)
        registry.up = False
        bench.add("in", ("k", "a", 1))
        asked_at = []
        for wall_ms in range(0, 5000, 10):
            before = registry.calls
            bench.run(wall_ms)
            if registry.calls > before:
                asked_at.append(wall_ms)
        assert asked_at == [50, 150, 350, 750, 1550, 2550, 3550, 4550]
        registry.up = True
        bench.run(6000)
        registry.up = False
        bench.add("in", ("k", "b", 1))
        bench.run(6000)
        registry.up = True
        assert bench.run(6050) == 1

    def test_bad_records_after_the_wait_go_to_the_handler(self) -> None:
        registry, handler = Registry(), Resume()
        bench = reading(registry, {"deserialization.exception.handler": handler})
        registry.up = False
        bench.add("in", ("k", "bad", 1), ("k", "b", 2))
        bench.run()
        assert handler.caught == []
        registry.up = True
        bench.run(50)
        assert [caught.context.offset for caught in handler.caught] == [0]
        assert values(bench.collector.take()) == ["b"]

    @pytest.mark.parametrize(("idle_ms", "goes_on"), [(0, False), (100, False), (-1, True)])
    def test_other_partitions_of_the_task_wait_as_for_data_that_is_there(self, idle_ms: int, goes_on: bool) -> None:
        registry = Registry()
        builder = StreamsBuilder()
        waiting = builder.stream("in", Consumed.with_(Serdes.string(), registry.strings))
        waiting.merge(builder.stream("other", STRINGS)).to("out", OUT)
        bench = Bench(builder, {"max.task.idle.ms": idle_ms})
        registry.up = False
        bench.add("in", ("k", "early", 1))
        bench.add("other", ("k", "late", 2))
        for wall_ms in (0, 1000, 2000):
            bench.run(wall_ms)
        assert values(bench.collector.take()) == (["late"] if goes_on else [])
        registry.up = True
        bench.run(9000)
        bench.run(9100)
        assert values(bench.collector.take()) == (["early"] if goes_on else ["early", "late"])

    def test_a_commit_meanwhile_takes_nothing_of_it(self) -> None:
        registry = Registry()
        bench = reading(registry)
        bench.feed("in", ("k", "a", 1))
        registry.up = False
        bench.add("in", ("k", "b", 2))
        bench.run()
        bench.commit()
        assert bench.offset("in") == 1
        registry.up = True
        assert bench.run(50) == 1
        assert bench.offset("in") == 2


class TestSerializers:
    def bench(self, registry: Registry, handler: Any = None) -> Bench:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).to("out", Produced.with_(Serdes.string(), registry.strings))
        return Bench(builder, {"production.exception.handler": handler} if handler else None)

    def test_the_serde_of_a_sink_is_asked_again_in_place(self) -> None:
        registry = Registry()
        bench = self.bench(registry)
        attempts: list[int] = []

        def wait(error: RetriableError, attempt: int) -> None:
            attempts.append(attempt)
            registry.up = attempt == 3

        bench.state_manager.context.failures.wait = wait
        registry.up = False
        assert values(bench.feed("in", ("k", "a", 1), ("k", "b", 2))) == ["a", "b"]
        assert attempts == [1, 2, 3]

    def test_a_serde_of_a_sink_that_never_answers_ends_the_task_and_no_handler_is_asked(self) -> None:
        registry = Registry()
        bench = self.bench(registry)
        registry.up = False
        bench.add("in", ("k", "a", 1))
        with pytest.raises(RetriableError, match="registry does not answer"):
            bench.run()
        assert bench.dropped == 0

    def test_a_result_that_turns_out_to_be_bad_goes_to_the_handler(self) -> None:
        class Refusing(Registry):
            def serialize(self, value: Any) -> bytes:
                self.ask()
                raise ValueError("incompatible")

        registry = Refusing()
        bench = self.bench(registry)
        bench.state_manager.context.failures.wait = lambda error, attempt: setattr(registry, "up", True)
        registry.up = False
        bench.add("in", ("k", "a", 1))
        with pytest.raises(ps.ProductionError, match="incompatible"):
            bench.run()

    def test_the_serde_of_a_store_makes_the_task_go_back(self) -> None:
        registry, handler = Registry(), Resume()
        builder = StreamsBuilder()
        kept: ps.Materialized[str, str] = ps.Materialized.as_("kept").with_value_serde(registry.strings)
        upper = builder.stream("in", STRINGS).map_values(str.upper)
        upper.group_by_key().reduce(lambda old, new: new, kept.with_caching_disabled())
        bench = Bench(builder, {"processing.exception.handler": handler})
        registry.up = False
        bench.add("in", ("k", "a", 1))
        with pytest.raises(RetriableError):
            bench.run()
        assert handler.caught == []


def test_patience_doubles_its_pauses_and_ends() -> None:
    pauses: list[float] = []
    patience = Patience(0.75, lambda error: LookupError(str(error)), pauses.append)
    for attempt in range(1, 5):
        patience.wait(RetriableError("away"), attempt)
    assert pauses == [0.05, 0.1, 0.2, 0.4]
    with pytest.raises(LookupError, match="away"):
        patience.wait(RetriableError("away"), 5)


class TestTheTestDriver:
    def driver(self, registry: Registry) -> ps.TopologyTestDriver:
        builder = StreamsBuilder()
        builder.stream("in", Consumed.with_(Serdes.string(), registry.strings)).to(
            "out", Produced.with_(Serdes.string(), registry.strings)
        )
        return ps.TopologyTestDriver(builder.build())

    def test_the_test_driver_asks_a_serde_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        registry = Registry()
        comes_back(monkeypatch, registry, 3)
        with self.driver(registry) as driver:
            registry.up = False
            driver.pipe("in", b"k", b"a", 1)
            (record,) = driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_records_to_list()
            assert record.value == "a"

    def test_the_test_driver_raises_the_error_of_a_serde_that_never_answers(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registry = Registry()
        comes_back(monkeypatch, registry, 10_000)
        with self.driver(registry) as driver:
            registry.up = False
            with pytest.raises(RetriableError, match="registry does not answer"):
                driver.pipe("in", b"k", b"a", 1)

    def test_a_global_store_of_the_test_driver_asks_its_serde_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        registry = Registry()
        comes_back(monkeypatch, registry, 2)
        builder = StreamsBuilder()
        kept: ps.Materialized[str, str] = ps.Materialized.as_("kept")
        builder.global_table("g", Consumed.with_(Serdes.string(), registry.strings), kept)
        builder.stream("in", STRINGS).to("out", OUT)
        with ps.TopologyTestDriver(builder.build()) as driver:
            registry.up = False
            driver.pipe("g", b"k", b"a", 1)
            assert driver.get_key_value_store("kept").get("k") == "a"


def comes_back(monkeypatch: pytest.MonkeyPatch, registry: Registry, attempt: int) -> None:
    """Let no time pass, and the registry answer at this attempt."""
    for module in ("topology_test_driver", "global_stores"):
        patience = Patience(10.0, lambda error: error, lambda s: None)
        wait = patience.wait

        def counted(error: RetriableError, number: int, wait: Any = wait) -> None:
            wait(error, number)
            registry.up = registry.up or number >= attempt

        patience.wait = counted  # type: ignore[method-assign, assignment]
        monkeypatch.setattr(f"penstock.testing.{module}._PATIENCE", patience)
