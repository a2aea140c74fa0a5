"""A standby that no broker lets open costs its actor one request, and is opened soon after the broker's return."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.actors.clock import Clock
from penstock.actors.standbys import standby_retries
from penstock.actors.standbys.standby_retries import StandbyRetries
from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import TaskId
from tests.waiting import PATIENCE_S

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)


class StoppedClock(Clock):
    now_s = 100.0

    def wall_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return self.now_s

    def thread_cpu_s(self) -> float:
        return self.monotonic_s()


class Probes:
    """Takes the place of the thread pool: a probe ends when the test ends it."""

    def __init__(self, *_: object) -> None:
        self.asked: list[Future[Any]] = []

    def submit(self, _: object) -> Future[Any]:
        self.asked.append(Future())
        return self.asked[-1]


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Probes:
    probes = Probes()
    monkeypatch.setattr(standby_retries, "ThreadPoolExecutor", lambda *_: probes)
    return probes


def nothing() -> None:
    """A probe that the test answers."""


def test_the_loop_tries_again_when_a_probe_has_reached_the_brokers(clock: StoppedClock, probes: Probes) -> None:
    retries = StandbyRetries(clock)
    assert retries.may_try(FIRST)
    assert retries.later(FIRST, nothing)
    assert not retries.may_try(FIRST)
    for _ in range(10):
        clock.now_s += 3.0
        assert not retries.may_try(FIRST), "the probe is under way"
        probes.asked[-1].set_exception(BrokerUnreachableError("nobody answers"))
        assert not retries.may_try(FIRST)
    assert len(probes.asked) == 10
    clock.now_s += 3.0
    retries.may_try(FIRST)
    probes.asked[-1].set_result(None)
    assert retries.may_try(FIRST), "less than 5 s after the broker's return"
    assert not retries.later(FIRST, nothing), "not its first failure"
    assert not retries.may_try(FIRST)


def test_while_one_waits_for_a_broker_the_others_are_probed_before_the_loop_tries_them(
    clock: StoppedClock, probes: Probes
) -> None:
    retries = StandbyRetries(clock)
    assert not retries.probe_first(SECOND, nothing)
    retries.later(FIRST, nothing)
    assert retries.probe_first(SECOND, nothing)
    assert not retries.may_try(SECOND)
    probes.asked[0].set_result(None)
    assert retries.may_try(SECOND)
    assert not retries.probe_first(SECOND, nothing)
    retries.done(SECOND)
    retries.keep_only([])
    assert not retries.probe_first(SECOND, nothing), "the one that failed is no longer wanted"


def test_one_whose_stores_another_process_has_waits_for_no_broker(clock: StoppedClock, probes: Probes) -> None:
    retries = StandbyRetries(clock)
    retries.later(FIRST, None)
    assert not retries.may_try(FIRST)
    clock.now_s += 3.0
    assert retries.may_try(FIRST)
    assert not probes.asked


def test_the_attempt_itself_meets_an_error_that_does_not_pass(clock: StoppedClock, probes: Probes) -> None:
    retries = StandbyRetries(clock)
    retries.later(FIRST, nothing)
    clock.now_s += 3.0
    retries.may_try(FIRST)
    probes.asked[0].set_exception(StreamsError("no permission"))
    assert retries.may_try(FIRST)


def test_a_first_probe_does_not_wait_for_those_of_partitions_without_leader(clock: StoppedClock) -> None:
    retries, leader_returns = StandbyRetries(clock), threading.Event()
    without_leader = [TaskId(1, partition) for partition in range(9)]
    for task_id in without_leader:
        retries.later(task_id, leader_returns.wait)
    clock.now_s += 3.0
    try:
        assert not any(map(retries.may_try, without_leader))
        assert retries.probe_first(SECOND, nothing)
        retries.may_try(SECOND)
        asked = retries._waiting[SECOND].asked
        assert asked is None or asked.result(timeout=PATIENCE_S) is None
        assert retries.may_try(SECOND)
    finally:
        leader_returns.set()
        retries.close()
