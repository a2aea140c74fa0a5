"""Calls out in the stream loop: what is committed, handed over and shown while they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.common.ids import TaskId
from penstock.tasks.contracts import CallRunner
from tests.actors.rig import LONG, STRING, Rig, settle, states
from tests.tasks.test_calls import HeldCalls, upper

GUARANTEES = ["at_least_once", "exactly_once_v2"]


class HeldHost:
    """The calls of all tasks of an actor end when the test says so."""

    def __init__(self) -> None:
        self.runners: list[HeldCalls] = []

    def runner(self) -> CallRunner:
        self.runners.append(HeldCalls())
        return self.runners[-1]

    def close(self) -> None: ...

    def end(self, *values: Any) -> None:
        for value in values:
            next(each for each in reversed(self.runners) if value in each.values).end(value)

    @property
    def values(self) -> list[Any]:
        return [value for runner in self.runners for value in runner.values]


def called(calls: ps.Calls | None = None) -> ps.Topology:
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.map_values_async(upper, calls).to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def counted_then_called(calls: ps.Calls | None = None) -> ps.Topology:
    builder = ps.StreamsBuilder()
    counts = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key().count(ps.Materialized.as_("counts"))
    counts.to_stream().map_values_async(lambda count: count, calls).to("out", ps.Produced.with_(STRING, LONG))
    return builder.build()


def rig_of(tmp_path: Path, topology: ps.Topology, **config: Any) -> tuple[Rig, HeldHost]:
    rig, host = Rig(tmp_path, topology, **config), HeldHost()
    rig.calls = lambda wake: host
    return rig, host


def outputs(rig: Rig) -> list[str]:
    return [(record.value or b"").decode() for record in rig.broker.records("out")]


def steps(loop: StreamLoop, count: int = 50) -> None:
    for _ in range(count):
        if not loop.finished.done():
            loop.step()


def test_at_least_once_a_commit_covers_what_is_before_the_oldest_call_and_does_not_wait(tmp_path: Path) -> None:
    rig, host = rig_of(tmp_path, called())
    loop = rig.running()
    rig.write("in", ("a", "0", 1), ("b", "1", 2), ("c", "2", 3))
    settle(loop)
    host.end("0", "2")
    rig.commit(loop)
    assert rig.committed() == 1
    assert outputs(rig) == ["0", "2"]
    host.end("1")
    rig.commit(loop)
    assert rig.committed() == 3


def test_exactly_once_a_commit_waits_for_the_calls_and_takes_no_records_meanwhile(tmp_path: Path) -> None:
    rig, host = rig_of(tmp_path, called(), processing_guarantee="exactly_once_v2")
    loop = rig.running()
    rig.write("in", ("a", "0", 1), ("b", "1", 2))
    settle(loop)
    host.end("1")
    rig.clock.now_ms += 1001
    steps(loop)
    rig.write("in", ("c", "2", 3))
    steps(loop)
    assert rig.committed() is None
    assert host.values == ["0"]
    host.end("0")
    settle(loop)
    assert rig.committed() == 2
    assert outputs(rig) == ["1", "0"]
    assert host.values == ["2"]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_calls_behind_a_cache_are_made_in_the_commit_that_flushes_it(tmp_path: Path, guarantee: str) -> None:
    rig, host = rig_of(tmp_path, counted_then_called(), processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("a", "x", 2))
    settle(loop)
    rig.clock.now_ms += 1001
    steps(loop)
    assert host.values == [2]
    assert rig.committed() is None
    host.end(2)
    settle(loop)
    assert rig.committed() == 2
    assert rig.counts() == [("a", 2)]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_task_that_moves_lets_its_calls_end_first(tmp_path: Path, guarantee: str) -> None:
    rig, host = rig_of(tmp_path, called(), processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "0", 1))
    settle(loop)
    moved = rig.assign(loop, 2)
    steps(loop)
    assert not moved.done()
    host.end("0")
    settle(loop)
    assert moved.done()
    assert rig.committed() == 1
    assert outputs(rig) == ["0"]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_call_that_does_not_end_holds_a_move_up_for_seconds_and_is_made_again_elsewhere(
    tmp_path: Path, guarantee: str
) -> None:
    rig, host = rig_of(tmp_path, called(ps.Calls(timeout_ms=60_000)), processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "0", 1), ("b", "1", 2), ("c", "2", 3))
    settle(loop)
    host.end("0", "2")
    moved = rig.assign(loop, 2)
    steps(loop)
    rig.clock.now_ms += 5001
    settle(loop)
    assert moved.done()
    assert states(loop) == {}
    again = rig.running(epoch=2, slot=2)
    host.end("1")  # the result after the move: of the new owner's call, or of none
    rig.commit(again)
    late = host.runners[0]
    assert late.open == []
    while host.values:
        host.end(host.values[0])
        settle(again)
    rig.commit(again)
    assert rig.committed() == 3
    wanted = ["0", "1", "2"] if guarantee == "exactly_once_v2" else ["0", "1", "2", "2"]
    assert sorted(outputs(rig)) == wanted


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_if_calls_that_a_flush_has_led_to_do_not_end_before_a_move_nothing_is_committed(
    tmp_path: Path, guarantee: str
) -> None:
    """Their update has left the cache: only the record before it, taken again, leads to the call again."""
    rig, host = rig_of(tmp_path, counted_then_called(ps.Calls(timeout_ms=60_000)), processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("a", "x", 2))
    settle(loop)
    moved = rig.assign(loop, 2)
    steps(loop)
    assert host.values == [2]
    rig.clock.now_ms += 5001
    settle(loop)
    assert moved.done()
    assert rig.committed() is None
    again = rig.running(epoch=2, slot=2)
    rig.clock.now_ms += 1001
    steps(again)
    host.end(2)
    settle(again)
    assert rig.counts() == [("a", 2)]
    assert rig.committed() == 2


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_stop_lets_calls_end(tmp_path: Path, guarantee: str) -> None:
    rig, host = rig_of(tmp_path, called(), processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "0", 1))
    settle(loop)
    stopped = loop.stop()
    steps(loop)
    assert not stopped.done()
    host.end("0")
    settle(loop)
    assert stopped.done()
    assert rig.committed() == 1


def test_an_order_does_not_wait_for_a_commit_that_waits_for_long_calls(tmp_path: Path) -> None:
    rig, host = rig_of(tmp_path, called(ps.Calls(timeout_ms=60_000)), processing_guarantee="exactly_once_v2")
    loop = rig.running()
    rig.write("in", ("a", "0", 1))
    settle(loop)
    rig.clock.now_ms += 1001
    steps(loop)
    moved = rig.assign(loop, 2)
    steps(loop)
    rig.clock.now_ms += 5001
    settle(loop)
    assert moved.done()
    assert rig.committed() is None
    assert host.values == []


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_an_order_waits_for_seconds_for_calls_that_the_flush_of_a_commit_has_led_to(
    tmp_path: Path, guarantee: str
) -> None:
    """With an open circuit breaker, or a low rate, they might end in hours."""
    rig, host = rig_of(tmp_path, counted_then_called(ps.Calls(timeout_ms=600_000)), processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("a", "x", 2))
    settle(loop)
    rig.clock.now_ms += 1001
    steps(loop)
    assert host.values == [2]
    moved = rig.assign(loop, 2)
    steps(loop)
    rig.clock.now_ms += 4000
    steps(loop)
    assert not moved.done()
    rig.clock.now_ms += 1001
    steps(loop, 500)
    assert moved.done()
    assert rig.committed() is None
    again = rig.running(epoch=2, slot=2)
    rig.clock.now_ms += 1001
    steps(again)
    host.end(2)
    settle(again)
    assert rig.counts() == [("a", 2)]
    assert rig.committed() == 2


def test_a_pause_lets_calls_end_and_begins_none(tmp_path: Path) -> None:
    rig, host = rig_of(tmp_path, called())
    loop = rig.running()
    rig.write("in", ("a", "0", 1))
    settle(loop)
    loop.pause(True)
    steps(loop)
    rig.write("in", ("b", "1", 2))
    host.end("0")
    rig.commit(loop)
    assert outputs(rig) == ["0"]
    assert rig.committed() == 1
    assert host.values == []


def test_a_full_operator_does_not_hold_other_tasks_up_and_fetches_no_more(tmp_path: Path) -> None:
    calls = ps.Calls(max_in_flight=1)
    rig, host = rig_of(tmp_path, called(calls), partitions=2, buffered_records_per_partition=10)
    loop = rig.running()
    for number in range(300):
        rig.write("in", ("a", f"a{number}", 1), partition=0)
    settle(loop)
    queued = next(hosted.queued() for hosted in loop._running if hosted.id == TaskId(0, 0))["in"]
    assert queued < 300
    rig.write("in", ("b", "b", 1), partition=1)
    settle(loop)
    assert "b" in host.values
    while host.values:
        host.end(host.values[0])
        settle(loop)
    rig.commit(loop)
    assert len(outputs(rig)) == 301
    assert rig.committed() == 300


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_failed_call_ends_the_actor_and_nothing_is_committed_past_its_record(tmp_path: Path, guarantee: str) -> None:
    rig, host = rig_of(tmp_path, called(), processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "0", 1), ("b", "bad", 2))
    settle(loop)
    host.end("bad")
    settle(loop)
    text = loop.finished.result(timeout=0)
    assert text is not None
    assert "cannot do bad, after 1 try in" in text
    assert "topic in, partition 0, offset 1" in text
    assert (rig.committed() or 0) <= 1


def test_the_status_shows_the_calls(tmp_path: Path) -> None:
    rig, host = rig_of(tmp_path, called(ps.Calls(max_in_flight=2)))
    loop = rig.running()
    for number in range(4):
        rig.write("in", (f"k{number}", f"{number}", 1))
    settle(loop)
    rig.clock.now_ms += 30
    host.end("0")
    settle(loop)
    asked = loop.status()
    loop.step()
    (task,) = asked.result().tasks
    measured = {name[1]: value for name, value in task.measured.items() if name[1].startswith("calls-")}
    assert measured["calls-in-flight"] == 2
    assert measured["calls-waiting"] == 1
    assert measured["calls-total"] == 3
    assert measured["calls-latency-p50"] == 30
    assert measured["calls-breaker-state"] == 0
