"""The calls of punctuators, on either clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.errors import ProcessingError
from penstock.common.records import Record
from penstock.tasks.punctuation import PunctuationQueue
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.processor_api.processor import Cancellable, Processor, ProcessorContext, PunctuationType
from tests.tasks.bench import STRINGS, Bench

STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


class Clocked(Processor[Any, Any, Any, Any]):
    """Schedules one punctuator when it starts."""

    def __init__(self, interval_ms: int, clock: PunctuationType, calls: list[int]) -> None:
        self._interval_ms = interval_ms
        self._clock = clock
        self._calls = calls

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.schedule = context.schedule(self._interval_ms, self._clock, self.punctuate)

    def punctuate(self, now_ms: int) -> None:
        self._calls.append(now_ms)

    def process(self, record: Record[Any, Any]) -> None:
        if record.value == "cancel":
            self.schedule.cancel()


def bench_with(supplier: Callable[[], Processor[Any, Any, Any, Any]]) -> Bench:
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).process(supplier)
    return Bench(builder)


def clocked(interval_ms: int, clock: PunctuationType) -> tuple[Bench, list[int]]:
    calls: list[int] = []
    return bench_with(lambda: Clocked(interval_ms, clock, calls)), calls


def test_a_clock_that_is_none_is_refused_with_those_there_are() -> None:
    clock: Any = "WALL_CLOCK_TIME"
    with pytest.raises(ProcessingError, match=r"schedule: type must be a PunctuationType, .* not 'WALL_CLOCK_TIME'"):
        clocked(10, clock)


class TestStreamTime:
    def test_the_first_record_is_punctuated_at_once_with_its_time(self) -> None:
        bench, calls = clocked(100, STREAM)
        bench.feed("in", ("k", "v", 1234))
        assert calls == [1234]

    def test_nothing_is_called_before_a_record(self) -> None:
        bench, calls = clocked(100, STREAM)
        bench.run(wall_ms=10_000)
        assert not bench.task.punctuate(10_000)
        assert calls == []

    def test_later_calls_are_aligned_to_zero_not_to_the_first_record(self) -> None:
        bench, calls = clocked(100, STREAM)
        for time in (1234, 1299, 1300, 1399, 1400):
            bench.feed("in", ("k", "v", time))
        assert calls == [1234, 1300, 1400]

    def test_intervals_that_were_missed_are_one_call(self) -> None:
        bench, calls = clocked(10, STREAM)
        bench.feed("in", ("k", "v", 5), ("k", "v", 987), ("k", "v", 989), ("k", "v", 990))
        assert calls == [5, 987, 990]

    def test_late_records_do_not_call(self) -> None:
        bench, calls = clocked(10, STREAM)
        bench.feed("in", ("k", "v", 100), ("k", "v", 50), ("k", "v", 109))
        assert calls == [100]

    def test_it_is_called_between_the_records_of_one_batch(self) -> None:
        seen: list[str] = []

        class Both(Processor[Any, Any, Any, Any]):
            def init(self, context: ProcessorContext[Any, Any]) -> None:
                context.schedule(10, STREAM, lambda now: seen.append(f"tick {now}"))

            def process(self, record: Record[Any, Any]) -> None:
                seen.append(record.value)

        bench_with(Both).feed("in", ("k", "a", 1), ("k", "b", 2), ("k", "c", 12))
        assert seen == ["a", "tick 1", "b", "c", "tick 12"]

    def test_a_cancelled_one_is_called_no_more(self) -> None:
        bench, calls = clocked(10, STREAM)
        bench.feed("in", ("k", "v", 10), ("k", "cancel", 15), ("k", "v", 20), ("k", "v", 30))
        assert calls == [10]


class TestWallClock:
    def test_the_first_call_is_after_one_interval(self) -> None:
        calls: list[int] = []
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).process(lambda: Clocked(100, WALL, calls))
        bench = Bench(builder, start=False)
        bench.task.init(7000)
        assert [bench.task.punctuate(at) for at in (7000, 7099, 7100, 7199, 7200)] == [False, False, True, False, True]
        assert calls == [7100, 7200]

    def test_it_is_called_without_any_record(self) -> None:
        bench, calls = clocked(100, WALL)
        bench.task.punctuate(100)
        assert calls == [100]

    def test_missed_intervals_are_skipped_and_the_phase_is_kept(self) -> None:
        bench, calls = clocked(100, WALL)
        for at in (450, 499, 500):
            bench.task.punctuate(at)
        assert calls == [450, 500]

    def test_records_alone_do_not_call(self) -> None:
        bench, calls = clocked(100, WALL)
        bench.feed("in", ("k", "v", 10**9))
        assert calls == []


def test_a_punctuator_may_cancel_itself() -> None:
    calls: list[int] = []

    class Once(Processor[Any, Any, Any, Any]):
        def init(self, context: ProcessorContext[Any, Any]) -> None:
            self.schedule = context.schedule(10, WALL, self.punctuate)

        def punctuate(self, now_ms: int) -> None:
            calls.append(now_ms)
            self.schedule.cancel()

        def process(self, record: Record[Any, Any]) -> None: ...

    bench = bench_with(Once)
    for at in (10, 20, 30):
        bench.task.punctuate(at)
    assert calls == [10]


def test_a_punctuator_may_cancel_another_that_is_due_now() -> None:
    calls: list[str] = []

    class Pair(Processor[Any, Any, Any, Any]):
        def init(self, context: ProcessorContext[Any, Any]) -> None:
            context.schedule(10, WALL, self.first)
            self.second = context.schedule(10, WALL, lambda now: calls.append("second"))

        def first(self, now_ms: int) -> None:
            calls.append("first")
            self.second.cancel()

        def process(self, record: Record[Any, Any]) -> None: ...

    bench_with(Pair).task.punctuate(10)
    assert calls == ["first"]


def test_a_punctuator_may_schedule_another() -> None:
    calls: list[str] = []

    class Nested(Processor[Any, Any, Any, Any]):
        def init(self, context: ProcessorContext[Any, Any]) -> None:
            self.context = context
            self.outer: Cancellable = context.schedule(10, WALL, self.first)

        def first(self, now_ms: int) -> None:
            calls.append(f"outer {now_ms}")
            self.outer.cancel()
            self.context.schedule(5, WALL, lambda now: calls.append(f"inner {now}"))

        def process(self, record: Record[Any, Any]) -> None: ...

    bench = bench_with(Nested)
    for at in (10, 14, 15, 20):
        bench.task.punctuate(at)
    assert calls == ["outer 10", "inner 15", "inner 20"]


def test_those_due_together_take_turns_as_in_javas_queue() -> None:
    calls: list[str] = []
    queue = PunctuationQueue()
    for name in ("a", "b", "c"):
        queue.schedule(name, 0, 10, lambda now: None)
    for now in (0, 10, 20):
        queue.punctuate(now, lambda node, punctuator, at: calls.append(node))
        calls.append("|")
    # By hand: poll puts the last element on top, add sifts the next schedule up from the end.
    assert "".join(calls) == "acb|cba|bac|"


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 ms"):
        PunctuationQueue().schedule("node", 0, 0, lambda now: None)
