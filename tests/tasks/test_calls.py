"""Operators that call out, in a task whose calls end when the test says so, and on the test driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

import penstock as ps
from penstock.common.errors import ProcessingError
from penstock.common.ids import TopicPartition
from penstock.tasks.contracts import Call, Finished
from tests.tasks.bench import Bench, Resume, Row

STRINGS, LONGS = ps.Serdes.string(), ps.Serdes.long()
IN: ps.Consumed[str, str] = ps.Consumed.with_(STRINGS, STRINGS)
OUT = ps.Produced.with_(STRINGS, STRINGS)
SOURCE = TopicPartition("in", 0)
WRONG: Any = "wrong"


class HeldCalls:
    """A runner whose calls end when the test says so."""

    def __init__(self) -> None:
        self.open: list[Call] = []
        self.cancelled: list[Call] = []
        self.begun: list[int] = []
        """Number of calls that began together."""
        self._finished: list[Finished] = []

    def start(self, calls: Sequence[Call]) -> None:
        self.open += calls
        self.begun.append(len(calls))

    def cancel(self, calls: Iterable[Call]) -> None:
        self.cancelled += calls

    def finished(self) -> Sequence[Finished]:
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        self.open.clear()

    def end(self, *values: Any) -> None:
        """Runs the oldest open call for each value to its end."""
        for value in values:
            call = next(call for call in self.open if call.arguments[0] == value)
            self.open.remove(call)
            try:
                self._finished.append(Finished(call, call.function(*call.arguments), None))
            except Exception as error:
                self._finished.append(Finished(call, None, error))

    @property
    def values(self) -> list[Any]:
        return [call.arguments[0] for call in self.open]


def upper(value: str) -> str:
    if value.startswith("bad"):
        raise ValueError(f"cannot do {value}")
    return value.upper()


def bench(
    build: Callable[[ps.KStream[str, str]], object], config: dict[str, Any] | None = None
) -> tuple[Bench, HeldCalls]:
    builder, calls = ps.StreamsBuilder(), HeldCalls()
    build(builder.stream("in", IN))
    return Bench(builder, config, call_runner=calls), calls


def called(calls: ps.Calls | None = None) -> Callable[[ps.KStream[str, str]], object]:
    return lambda stream: stream.map_values_async(upper, calls).to("out", OUT)


def step(bench: Bench, now_ms: float = 0.0) -> list[tuple[bytes | None, bytes | None, int]]:
    bench.task.step_calls(now_ms, 0)
    return [(sent.key, sent.value, sent.timestamp) for sent in bench.collector.take() if sent.topic == "out"]


def committed(bench: Bench) -> int | None:
    offset = bench.task.offsets().get(SOURCE)
    return None if offset is None else offset.offset


# ---- order, time and offsets ----


def test_a_result_is_forwarded_with_the_key_time_and_headers_of_its_record() -> None:
    one, calls = bench(called())
    one.feed("in", Row("k", "a", 7, [("h", b"1")]))
    assert step(one) == []
    calls.end("a")
    one.task.step_calls(0.0, 0)
    (sent,) = one.collector.take()
    assert (sent.key, sent.value, sent.timestamp, list(sent.headers or ())) == (b"k", b"A", 7, [("h", b"1")])


def test_the_oldest_unfinished_record_is_what_is_committed() -> None:
    one, calls = bench(called())
    one.feed("in", ("a", "0", 10), ("b", "1", 20), ("c", "2", 30))
    step(one)
    assert committed(one) == 0
    calls.end("1", "2")
    assert [value for _, value, _ in step(one)] == [b"1", b"2"]
    assert committed(one) == 0
    calls.end("0")
    step(one)
    assert committed(one) == 3


def test_the_committed_time_of_a_partition_is_that_before_its_oldest_unfinished_record() -> None:
    one, calls = bench(called())
    one.feed("in", ("a", "0", 10), ("b", "1", 500), ("c", "2", 30))
    step(one)
    calls.end("0")
    step(one)
    after, builder = one.task.offsets(), ps.StreamsBuilder()
    called()(builder.stream("in", IN))
    other = Bench(builder, start=False)
    other.task.resume(after)
    assert other.task.metrics().stream_time_ms == 10


def test_a_task_takes_no_more_records_than_there_is_room_for() -> None:
    one, calls = bench(called(ps.Calls(max_in_flight=2)))
    one.add("in", *((str(number), str(number), 0) for number in range(10)))
    assert one.run() == 4
    step(one)
    assert calls.values == ["0", "1"]
    assert one.run() == 0
    calls.end("1", "0")
    step(one)
    assert calls.values == ["2", "3"]
    assert one.run() == 2


def test_calls_begin_while_results_of_others_are_not_forwarded_yet() -> None:
    one, calls = bench(called(ps.Calls(max_in_flight=120)))
    values = [str(number) for number in range(240)]
    one.add("in", *((value, value, 0) for value in values))
    one.run()
    step(one)
    calls.end(*values[:120])
    calls.begun.clear()
    assert len(step(one)) == 120
    assert calls.begun == [50, 50, 20]


def test_a_few_large_texts_among_small_ones_fill_an_operator() -> None:
    one, _ = bench(called(ps.Calls(max_bytes=100_000)))
    one.add("in", *((str(number), "x" * (60_000 if number in (5, 6) else 1), 0) for number in range(40)))
    assert one.run() == 7


def test_only_the_calls_of_one_record_may_exceed_the_limit() -> None:
    calls = ps.Calls(max_in_flight=2)
    one, _ = bench(
        lambda stream: stream.flat_map_values(lambda value: [value] * 10).map_values_async(upper, calls).to("out", OUT)
    )
    one.add("in", ("k", "a", 0), ("k", "b", 0))
    assert one.run() == 1


def test_records_of_one_key_keep_their_order_and_others_overtake() -> None:
    one, calls = bench(called())
    one.feed("in", ("a", "a0", 0), ("a", "a1", 0), ("b", "b0", 0))
    step(one)
    assert calls.values == ["a0", "b0"]
    calls.end("b0", "a0")
    assert [value for _, value, _ in step(one)] == [b"B0", b"A0"]
    assert calls.values == ["a1"]


def test_order_partition_keeps_the_order_of_results_and_runs_calls_of_one_key_together() -> None:
    one, calls = bench(called(ps.Calls(order="partition")))
    one.feed("in", ("a", "0", 0), ("a", "1", 0))
    step(one)
    assert calls.values == ["0", "1"]
    calls.end("1")
    assert step(one) == []
    calls.end("0")
    assert [value for _, value, _ in step(one)] == [b"0", b"1"]


def windowed(stream: ps.KStream[str, str]) -> object:
    counts = (
        stream.map_values_async(upper)
        .group_by_key(ps.Grouped.with_(STRINGS, STRINGS))
        .windowed_by(ps.TimeWindows.of_size_and_grace(10, 0))
        .count(ps.Materialized.as_("counts").with_key_serde(STRINGS).with_value_serde(LONGS).with_caching_disabled())
    )
    return counts.to_stream().map(lambda key, count: (key.key, str(count))).to("out", OUT)


def test_windows_behind_calls_see_the_records_in_their_order_so_none_comes_late() -> None:
    one, calls = bench(windowed)
    one.feed("in", ("a", "0", 5), ("b", "1", 25))
    step(one)
    calls.end("1")  # overtaken by it, the first record would be too late for its window
    assert step(one) == []
    calls.end("0")
    assert step(one) == [(b"a", b"1", 5), (b"b", b"1", 25)]
    assert one.task.metrics().dropped_records_total == 0


def test_stream_time_downstream_of_calls_advances_with_the_results() -> None:
    seen: list[int] = []

    class Look(ps.Processor[str, str, str, str]):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            self.context = context
            context.schedule(10, ps.PunctuationType.STREAM_TIME, seen.append)

        def process(self, record: ps.Record[str, str]) -> None:
            seen.append(-self.context.current_stream_time_ms())

    one, calls = bench(lambda stream: stream.map_values_async(upper).process(Look))
    one.feed("in", ("a", "0", 5), ("b", "1", 25))
    step(one)
    calls.end("1")
    step(one)
    assert seen == [5]  # the first punctuation is due with the first record's time
    calls.end("0")
    step(one)
    assert seen == [5, -5, -25, 25]


# ---- failures, retries, cancelled calls ----


def test_a_failed_call_goes_to_the_handler_with_its_record_and_its_tries() -> None:
    handler = Resume()
    one, calls = bench(called(ps.Calls(retry=ps.Retry(tries=2))), {"processing.exception.handler": handler})
    one.feed("in", ("k", "bad", 3), ("k", "good", 4))
    step(one)
    calls.end("bad")
    step(one, 0)
    step(one, 100)
    calls.end("bad")
    step(one, 150)
    (caught,) = handler.caught
    at = caught.context
    assert (at.topic, at.partition, at.offset, at.source_raw_key, at.source_raw_value) == ("in", 0, 0, b"k", b"bad")
    assert caught.record == ps.Record("k", "bad", 3)
    assert str(caught.error) == "cannot do bad"
    assert caught.error.__notes__ == ["after 2 tries in 150 ms"]
    calls.end("good")
    assert step(one, 150) == [(b"k", b"GOOD", 4)]
    assert committed(one) == 2


def test_calls_that_have_ended_do_not_time_out_because_the_task_comes_to_them_late() -> None:
    """The thread of the task may be busy for seconds, as with the restore of another one."""
    one, calls = bench(called(ps.Calls(timeout_ms=50)))
    values = [f"v{number:02}" for number in range(100)]
    one.feed("in", *((value, value, 0) for value in values))
    step(one)
    calls.end(*calls.values)
    assert [value for _, value, _ in step(one, 1000)] == [value.upper().encode() for value in values]


def test_a_call_that_never_returns_is_given_up_and_reported() -> None:
    handler = Resume()
    one, calls = bench(called(ps.Calls(timeout_ms=50)), {"processing.exception.handler": handler})
    one.feed("in", ("k", "slow", 3))
    step(one)
    assert step(one, 49) == []
    step(one, 50)
    assert [call.arguments for call in calls.cancelled] == [("slow",)]
    assert isinstance(handler.caught[0].error, ps.CallTimeoutError)
    assert committed(one) == 1


def test_without_a_handler_that_drops_it_a_failure_ends_the_task() -> None:
    one, calls = bench(called())
    one.feed("in", ("k", "bad", 3))
    step(one)
    calls.end("bad")
    with pytest.raises(ProcessingError, match=r"ValueError: cannot do bad, after 1 try in 0 ms .*offset 0; key 'k'"):
        one.task.step_calls(0.0, 0)


def test_results_after_the_end_of_the_task_change_nothing() -> None:
    one, calls = bench(called())
    one.feed("in", ("k", "a", 3))
    step(one)
    calls.end("a")
    one.task.close()
    assert step(one) == []


# ---- commits ----


def counted_first(stream: ps.KStream[str, str]) -> object:
    store = ps.Materialized.as_("counts").with_key_serde(STRINGS).with_value_serde(LONGS)
    counts = stream.group_by_key(ps.Grouped.with_(STRINGS, STRINGS)).count(store)
    return counts.to_stream().map_values_async(lambda count: str(count)).to("out", OUT)


def test_a_commit_waits_for_calls_about_updates_of_a_store_upstream() -> None:
    """A cache forgets an update once it is flushed: nothing would lead to the call again after a crash."""
    one, calls = bench(counted_first)
    one.feed("in", ("a", "x", 0), ("a", "y", 0))
    assert one.task.drains_calls
    commit = one.task.take_snapshot()
    next(commit)  # the cache has forwarded its update, and the call waits to begin
    step(one)
    assert calls.values == [2]
    next(commit)
    calls.end(2)
    assert step(one) == [(b"a", b"2", 0)]
    assert list(commit) == []
    assert committed(one) == 2


def test_a_commit_beside_calls_does_not_wait_at_least_once_and_does_exactly_once() -> None:
    assert not bench(called())[0].task.drains_calls
    assert bench(called(), {"processing.guarantee": "exactly_once_v2"})[0].task.drains_calls


def test_a_store_behind_calls_does_not_claim_unfinished_records() -> None:
    def build(stream: ps.KStream[str, str]) -> object:
        grouped = ps.Grouped.with_(STRINGS, STRINGS)
        kept = ps.Materialized.as_("before").with_key_serde(STRINGS).with_value_serde(LONGS)
        stream.group_by_key(grouped).count(kept)
        behind = ps.Materialized.as_("behind").with_key_serde(STRINGS).with_value_serde(LONGS)
        return stream.map_values_async(upper).group_by_key(grouped).count(behind)

    one, _ = bench(build)
    one.feed("in", ("a", "0", 0), ("b", "1", 0))
    step(one)
    assert dict(one.task.processed_offsets("before")) == {SOURCE: 1}
    assert dict(one.task.processed_offsets("behind")) == {SOURCE: -1}
    assert dict(one.task.processed_offsets()) == {SOURCE: -1}


# ---- idempotency, several operators ----


def test_each_call_has_a_key_of_its_own_that_is_the_same_in_each_try() -> None:
    seen: list[tuple[str, int]] = []

    def note(value: str, context: ps.CallContext) -> str:
        seen.append((context.idempotency_key, context.attempt))
        if context.attempt == 1 and value == "b":
            raise ValueError(value)
        return value

    def build(stream: ps.KStream[str, str]) -> object:
        twice = stream.flat_map_values(lambda value: [value, value])
        retry = ps.Calls(order="none", retry=ps.Retry(tries=2, backoff_ms=0))
        return twice.map_values_async(note, retry, named="call").to("out", OUT)

    one, calls = bench(build)
    one.feed("in", ("k", "a", 0), ("k", "b", 0))
    step(one)
    calls.end("a", "a", "b", "b")
    step(one)
    calls.end("b", "b")
    step(one)
    keys = [(key[key.index("/0_0/") :], attempt) for key, attempt in seen]
    assert keys == [
        (f"/0_0/call/in/0/{place}", attempt)
        for place, attempt in (("0/0", 1), ("0/1", 1), ("1/0", 1), ("1/1", 1), ("1/0", 2), ("1/1", 2))
    ]


def test_a_call_may_follow_another_and_both_hold_the_offset() -> None:
    one, calls = bench(
        lambda stream: stream.map_values_async(upper).map_values_async(lambda value: value + "!").to("out", OUT)
    )
    one.feed("in", ("k", "a", 0))
    step(one)
    calls.end("a")
    assert step(one) == []
    assert calls.values == ["A"]
    assert committed(one) == 0
    calls.end("A")
    assert step(one) == [(b"k", b"A!", 0)]
    assert committed(one) == 1
