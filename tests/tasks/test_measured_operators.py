"""The time of each operator and the records that enter it, in runs that are measured."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import pytest

import penstock as ps
import penstock.testing.topology_test_driver as driver_module
from penstock.common.ids import TaskId, TopicPartition
from penstock.tasks.measuring.operator_meter import MOST_DEEP, OperatorMeter, Overhead, calibrated
from penstock.tasks.task import Task
from penstock.tasks.wiring import Wiring
from penstock.topology.dsl.streams_builder import StreamsBuilder
from tests.parity import corpus
from tests.parity.compare import FIELDS
from tests.parity.play import play
from tests.tasks.bench import STRINGS, Bench

EVERY = 7
"""Of the cases of Kafka Streams, one in so many is played."""
CASES = [case for file in corpus.FILES for case in corpus.read(file)][::EVERY]
OUT: ps.Produced[Any, Any] = ps.Produced.with_(ps.Serdes.string(), ps.Serdes.string())


class Clock:
    """A clock that only :meth:`spend` moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


class Measured(Bench):
    """A task whose operators are measured by a clock that only the program moves."""

    def __init__(self, builder: StreamsBuilder, clock: Clock, **config: Any) -> None:
        super().__init__(builder, {key.replace("_", "."): value for key, value in config.items()}, start=False)
        self.meter = OperatorMeter(clock, Overhead())
        self.task = Task(self.state_manager, self.collector, meter=self.meter)
        for topic in self._next:
            self.task.set_caught_up(TopicPartition(topic, 0), True)
        self.task.init(0)

    def measured(self, run: Callable[[], Any]) -> dict[str, tuple[int, float]]:
        """Returns calls and seconds of each node that was called in ``run``."""
        self.meter.begin()
        run()
        self.meter.end()
        return {node: (seen.calls, round(seen.self_s, 6)) for node, seen in self.meter.nodes.items() if seen.calls}


def named(node: str) -> ps.Named:
    return ps.Named.as_(node)


def test_an_operator_has_its_own_time_and_that_of_its_function_without_that_of_the_operators_below() -> None:
    clock, builder = Clock(), ps.StreamsBuilder()

    def slow(value: str) -> str:
        clock.spend(3.0)
        return value

    def quick(value: str) -> bool:
        clock.spend(0.5)
        return value == "keep"

    stream = builder.stream("in", STRINGS).filter(quick, named=named("filter"))
    stream.map_values(slow, named=named("slow")).to("out", OUT)
    bench = Measured(builder, clock)
    bench.add("in", *(("k", "keep" if n % 10 == 0 else "drop", n) for n in range(100)))
    seen = bench.measured(bench.run)
    assert seen["filter"] == (100, 50.0)
    assert seen["slow"] == (10, 30.0)
    assert seen["KSTREAM-SINK-0000000003"] == (10, 0.0)
    assert seen["KSTREAM-SOURCE-0000000000"] == (100, 0.0)


def test_an_operator_with_several_parents_and_one_with_several_children_count_each_record() -> None:
    clock, builder = Clock(), ps.StreamsBuilder()
    first = builder.stream("in", STRINGS).peek(lambda key, value: clock.spend(1.0), named=named("first"))
    merged = first.filter(lambda value: value == "a", named=named("a")).merge(first, named=named("merge"))
    merged.peek(lambda key, value: clock.spend(2.0), named=named("last"))
    bench = Measured(builder, clock)
    bench.add("in", ("k", "a", 1), ("k", "b", 2), ("k", "b", 3))
    seen = bench.measured(bench.run)
    assert (seen["first"], seen["a"], seen["merge"], seen["last"]) == ((3, 3.0), (3, 0.0), (4, 0.0), (4, 8.0))


class Forwarding(ps.Processor[str, str, str, str]):
    """Spends a second on each record and two in each punctuator, and forwards in both."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self._context = context
        context.schedule(10, ps.PunctuationType.WALL_CLOCK_TIME, self._punctuate)

    def process(self, record: ps.Record[str, str]) -> None:
        self._clock.spend(1.0)
        self._context.forward(record)

    def _punctuate(self, now_ms: int) -> None:
        self._clock.spend(2.0)
        self._context.forward(ps.Record("k", "late", now_ms))


def test_a_processor_of_the_users_and_its_punctuators_are_measured() -> None:
    clock, builder = Clock(), ps.StreamsBuilder()
    stream = builder.stream("in", STRINGS).process(lambda: Forwarding(clock), named=named("mine"))
    stream.peek(lambda key, value: clock.spend(0.25), named=named("below"))
    bench = Measured(builder, clock)
    bench.add("in", ("k", "a", 1), ("k", "b", 2))
    assert bench.measured(bench.run) == {
        "KSTREAM-SOURCE-0000000000": (2, 0.0), "mine": (2, 2.0), "below": (2, 0.5),
    }  # fmt: skip
    bench.meter.begin()
    assert bench.task.punctuate(20)
    bench.meter.end()
    nodes = bench.meter.nodes
    assert (nodes["mine"].calls, nodes["mine"].self_s) == (0, 2.0), "no record has entered it"
    assert (nodes["below"].calls, nodes["below"].self_s) == (1, 0.25)


def test_what_a_cache_releases_is_measured_when_it_is_flushed() -> None:
    clock, builder = Clock(), ps.StreamsBuilder()
    counted = builder.stream("in", STRINGS).group_by_key().count()
    counted.to_stream().peek(lambda key, value: clock.spend(1.0), named=named("below"))
    bench = Measured(builder, clock)
    bench.add("in", *(("k" + str(n % 3), "v", n) for n in range(9)))
    assert "below" not in bench.measured(bench.run)
    assert bench.measured(bench.flush)["below"] == (3, 3.0)


def test_the_overhead_is_taken_off() -> None:
    clock = Clock()
    meter = OperatorMeter(clock, Overhead(inside_s=0.25, around_s=0.5))
    child = meter._timed("child", lambda *record: clock.spend(1.0))

    def parent(*record: Any) -> None:
        clock.spend(2.0)
        child(*record)

    timed = meter._timed("parent", parent)
    meter.begin()
    timed("k", "v", 1)
    ended = meter.end()
    assert meter.nodes["child"].self_s == 1.0 - 0.25
    assert meter.nodes["parent"].self_s == 2.0 - 0.25 - 0.5
    assert ended == (0.0, 2 * 0.75, 2 * 0.75)


def test_the_calibration_by_a_clock_that_stands_still_is_nothing() -> None:
    assert calibrated(Clock()) == Overhead(0.0, 0.0)


def test_an_error_in_a_measured_run_leaves_plain_edges_behind() -> None:
    clock, builder = Clock(), ps.StreamsBuilder()

    def fails(value: str) -> str:
        raise ValueError(value)

    builder.stream("in", STRINGS).map_values(fails).to("out", OUT)
    bench = Measured(builder, clock)
    (queue,) = bench.task._group.queues.values()
    plain = queue.source.head
    bench.add("in", ("k", "a", 1))
    bench.meter.begin()
    assert queue.source.head is not plain
    with pytest.raises(ps.RecordError):
        bench.run()
    bench.meter.end()
    assert queue.source.head is plain


def test_a_topology_without_operators_is_measured() -> None:
    clock, builder = Clock(), ps.StreamsBuilder()
    builder.stream("in", STRINGS).to("out", OUT)
    bench = Measured(builder, clock)
    bench.add("in", ("k", "a", 1), ("k", "b", 2))
    assert bench.measured(bench.run)["KSTREAM-SINK-0000000001"] == (2, 0.0)


def test_a_chain_too_long_for_the_interpreters_stack_is_not_measured() -> None:
    for length, measured in ((MOST_DEEP - 1, True), (MOST_DEEP, False)):
        builder = ps.StreamsBuilder()
        stream = builder.stream("in", STRINGS)
        for _ in range(length - 1):
            stream = stream.peek(lambda key, value: None)
        stream.to("out", OUT)
        assert Measured(builder, Clock()).meter.connected is measured


@pytest.fixture
def meters(monkeypatch: pytest.MonkeyPatch) -> list[OperatorMeter]:
    """Has all tasks of test drivers measured all the time; returns their meters."""
    made: list[OperatorMeter] = []

    def measured_task(*arguments: Any, **options: Any) -> Task:
        gc.collect(0)
        gc.freeze()  # so that the search for references is short
        meter = OperatorMeter(Clock(), Overhead())
        task = Task(*arguments, **options, meter=meter)
        made.append(meter)
        assert not list(_references_left(meter))
        meter.begin()
        return task

    monkeypatch.setattr(driver_module, "Task", measured_task)
    return made


def _references_left(meter: OperatorMeter) -> Iterator[tuple[str, Any]]:
    """Yields the places that hold a plain edge and that no measured run fills."""
    filled: set[int] = set()
    for put, _, _ in meter._swaps:
        assert isinstance(put, partial)
        filled.update(id(holder) for holder in (*put.args, getattr(put.func, "__self__", None)))
    own: Mapping[str, Any] = meter._edges
    for node, edge in own.items():
        for holder in gc.get_referrers(edge):
            if holder is own or id(holder) in filled or not _may_call(holder):
                continue
            if isinstance(holder, CellType) and _is_of_meter(holder):
                continue
            yield node, holder


def _may_call(holder: object) -> bool:
    """Returns False for dicts, which hold the children while a task is made, and for what the meter has."""
    ours = type(holder).__module__.startswith("penstock.tasks.") and not isinstance(holder, Wiring)
    return ours or isinstance(holder, CellType | list | FunctionType | MethodType)


def _is_of_meter(cell: CellType) -> bool:
    closures = [holder for holder in gc.get_referrers(cell) if isinstance(holder, tuple)]
    functions = [each for closure in closures for each in gc.get_referrers(closure) if isinstance(each, FunctionType)]
    return bool(functions) and all("OperatorMeter" in each.__qualname__ for each in functions)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_measured_tasks_do_what_kafka_streams_did(case: dict[str, Any], meters: list[OperatorMeter]) -> None:
    try:
        played = play(case)
    finally:
        gc.unfreeze()
    for field in FIELDS:
        assert played[field] == case[field], field
    assert meters


def test_a_closed_task_leaves_nothing_of_its_meter_behind() -> None:
    clock, builder = Clock(), ps.StreamsBuilder()
    builder.stream("in", STRINGS).peek(lambda key, value: None).to("out", OUT)
    bench = Measured(builder, clock)
    assert bench.task.task_id == TaskId(0, 0)
    bench.task.close()
    del bench
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is OperatorMeter and each._now_s is clock]
