"""Order, offsets, time and commits of a task with calls: they depend on what is upstream and downstream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import penstock as ps
from tests.tasks.test_calls import LONGS, OUT, STRINGS, bench, committed, step, upper

GROUPED = ps.Grouped.with_(STRINGS, STRINGS)
Build = Callable[[ps.KStream[str, str]], object]


class Passes(ps.Processor[str, str, str, str]):
    """Forwards its records."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: ps.Record[str, str]) -> None:
        self.context.forward(record)


def called(stream: ps.KStream[str, str]) -> ps.KStream[str, str]:
    return stream.map_values_async(upper, ps.Calls(order="none"))


def counted(stream: ps.KStream[str, str]) -> Any:
    store = ps.Materialized.as_("counts").with_key_serde(STRINGS).with_value_serde(LONGS)
    return stream.group_by_key(GROUPED).count(store)


def repartitioned(stream: ps.KStream[str, str]) -> object:
    return called(stream).repartition(ps.Repartitioned.with_(STRINGS, STRINGS)).to("out", OUT)


@pytest.mark.parametrize(
    ("build", "in_order", "drains"),
    [
        (lambda stream: called(stream).to("out", OUT), False, False),
        (lambda stream: counted(called(stream)), False, False),
        (repartitioned, True, False),
        (lambda stream: called(stream).process(Passes).to("out", OUT), True, False),
        (lambda stream: called(stream.process(Passes)).to("out", OUT), False, True),
        (lambda stream: called(called(stream)).to("out", OUT), False, False),
    ],
)
def test_order_and_waits_of_commits_follow_from_what_is_around_the_calls(
    build: Build, in_order: bool, drains: bool
) -> None:
    one, _ = bench(build)
    assert one.task.calls is not None
    assert one.task.calls.operators[0].machine.in_order == in_order
    assert one.task.drains_calls == drains


def test_of_two_operators_in_a_row_the_one_with_the_older_record_holds_the_offset() -> None:
    one, calls = bench(lambda stream: called(called(stream)).to("out", OUT))
    one.feed("in", ("a", "a", 0), ("b", "b", 0))
    step(one)
    calls.end("a")
    step(one)
    assert calls.values == ["b", "A"]
    assert committed(one) == 0
    calls.end("b")
    step(one)
    calls.end("B")
    step(one)
    assert committed(one) == 0


def test_a_punctuation_between_two_records_does_not_take_the_place_of_the_second() -> None:
    class Ticks(Passes):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            super().init(context)
            context.schedule(10, ps.PunctuationType.STREAM_TIME, lambda now_ms: None)

    one, calls = bench(lambda stream: called(stream.process(Ticks)).to("out", OUT))
    one.feed("in", ("a", "a", 15), ("b", "b", 16))
    step(one)
    calls.end("a")
    step(one)
    assert committed(one) == 1


def test_records_after_a_result_have_no_part_in_its_lineage() -> None:
    keys: list[str] = []

    def note(value: str, context: ps.CallContext) -> str:
        keys.append(context.idempotency_key)
        return value

    one, calls = bench(lambda stream: stream.map_values_async(note, named="call").to("out", OUT))
    for number, value in enumerate("ab"):
        one.feed("in", ("k", value, number))
        step(one)
        calls.end(value)
        step(one)
    assert [key.removeprefix("app/0_0/call/") for key in keys] == ["in/0/0/0", "in/0/1/0"]


def test_stream_time_waits_for_calls_in_every_branch() -> None:
    """A result of one branch must not move the time of the task past records of the other."""
    seen: list[tuple[str, int]] = []

    class Look(Passes):
        def process(self, record: ps.Record[str, str]) -> None:
            seen.append((record.value, self.context.current_stream_time_ms()))

    def build(stream: ps.KStream[str, str]) -> None:
        for name in ("slow", "fast"):
            named = stream.map_values(partial("{} {}".format, name))
            named.map_values_async(upper).process(Look)

    one, calls = bench(build)
    one.feed("in", ("a", "0", 5), ("b", "1", 25))
    step(one)
    for value in ("fast 0", "fast 1", "slow 0", "slow 1"):
        calls.end(value)
        step(one)
    assert seen == [("FAST 0", 5), ("FAST 1", 5), ("SLOW 0", 5), ("SLOW 1", 25)]
