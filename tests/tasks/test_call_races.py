"""Every element that calls out ends exactly once, whatever races (FLINK-30477, FLINK-38082, FLINK-40456)."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import penstock as ps
from penstock.tasks.calls.batch_machine import BatchMachine
from penstock.tasks.calls.element import DONE, FAILED, Element
from penstock.tasks.calls.machine import CallMachine
from tests.tasks.test_call_machine import Service

_CALLS = st.builds(
    ps.Calls,
    max_in_flight=st.integers(1, 4),
    timeout_ms=st.integers(1, 60),
    order=st.sampled_from(["key", "partition", "none"]),
    collapse=st.booleans(),
    retry=st.none()
    | st.builds(
        ps.Retry,
        tries=st.integers(1, 4),
        backoff_ms=st.integers(0, 30),
        retryable=st.sampled_from([None, lambda error: isinstance(error, OSError)]),
    ),
    breaker=st.none() | st.builds(ps.Breaker, failures=st.integers(1, 3), open_ms=st.integers(1, 50)),
    cache=st.none() | st.builds(ps.Cache, ttl_ms=st.integers(1, 50), max_entries=st.integers(1, 3)),
    max_rate=st.none() | st.sampled_from([10.0, 100.0, 1000.0]),
)


class Races(RuleBasedStateMachine):
    """Results, failures, time-outs, retries, commits and the end of the task, in any order; also results that come late
    or twice."""

    chains = True

    def machine_of(self, calls: ps.Calls, in_order: bool) -> CallMachine:
        return CallMachine(calls, in_order=in_order)

    def result_of(self, number: int) -> Any:
        return number

    @initialize(calls=_CALLS, in_order=st.booleans())
    def begin(self, calls: ps.Calls, in_order: bool) -> None:
        self.service = Service(machine=self.machine_of(calls, in_order or calls.order == "partition"))
        self.calls = calls
        self.submitted: list[Element] = []
        self.committed = 0
        self.closed = False

    @precondition(lambda self: not self.closed and self.service.machine.room > 0)
    @rule(key=st.sampled_from([None, "a", "b"]), value=st.sampled_from(["x", "y"]))
    def submit(self, key: str | None, value: str) -> None:
        element = Element(key, value, 0, offset=len(self.submitted), chain=key if self.chains else None, same=value)
        self.submitted.append(element)
        self.service.machine.submit(element)
        self.service.take()

    @rule(ms=st.integers(0, 40))
    def time_passes(self, ms: int) -> None:
        if not self.closed:
            self.service.tick(ms)

    @precondition(lambda self: self.service.open)
    @rule(data=st.data(), fails=st.sampled_from([None, OSError, ValueError]), then_ticks=st.booleans())
    def a_try_ends(self, data: st.DataObject, fails: type[Exception] | None, then_ticks: bool) -> None:
        """Any try that was ever begun, also one that has ended or was given up."""
        number = data.draw(st.sampled_from(sorted(self.service.open)))
        if fails is not None:
            self.service.machine.failed(number, fails("failed"), self.service.now)
        else:
            self.service.machine.succeeded(number, self.result_of(number), self.service.now)
        if then_ticks and not self.closed:
            self.service.tick()
        self.service.take()

    @rule()
    def commit(self) -> None:
        """The committed offset never goes back, and never claims an element that has not ended."""
        if self.closed:
            return
        unfinished = [each.offset for each in self.service.machine.unfinished]
        offset = min(unfinished, default=len(self.submitted))
        assert offset >= self.committed
        gone = {each.offset for each in self.service.gone}
        assert gone.issuperset(range(offset))
        self.committed = offset

    @rule()
    def close(self) -> None:
        running = set(self.service.machine.running)
        self.service.machine.close()
        assert running <= {*self.service.machine.to_cancel, *self.service.cancelled}
        self.service.take()
        self.closed = True

    @invariant()
    def each_element_ends_at_most_once(self) -> None:
        if not hasattr(self, "service"):
            return
        gone = [id(each) for each in self.service.gone]
        assert len(gone) == len(set(gone))
        assert all(each.state in (DONE, FAILED) for each in self.service.gone)
        machine = self.service.machine
        assert len(machine.running) <= self.calls.max_in_flight
        if machine.in_order:
            offsets = [each.offset for each in self.service.gone]
            assert offsets == sorted(offsets)
        for key in ("a", "b") if self.calls.order == "key" else ():
            offsets = [each.offset for each in self.service.gone if each.key == key]
            assert offsets == sorted(offsets)
            assert not self.chains or sum(each.key == key for each in machine.running.values()) <= 1
        if self.closed:
            assert not machine.unfinished

    def teardown(self) -> None:
        """All that was submitted ends when the service answers nothing more: nothing waits for ever."""
        if hasattr(self, "service") and not self.closed:
            for _ in range(10_000):
                if not self.service.machine.unfinished:
                    break
                due = self.service.machine.next_due_ms()
                assert due < float("inf")
                self.service.tick(max(1.0, due - self.service.now))
            assert not self.service.machine.unfinished
            assert sorted(each.offset for each in self.service.gone) == list(range(len(self.submitted)))


class RacesOfBatches(Races):
    """The same with batches, whose results may be too few."""

    chains = False

    def machine_of(self, calls: ps.Calls, in_order: bool) -> CallMachine:
        return BatchMachine(calls, 3, 20, in_order=in_order)

    def result_of(self, number: int) -> Any:
        return [number] * (len(self.service.open[number]) - (number % 7 == 0))


_SETTINGS = settings(max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
TestRaces = Races.TestCase
TestRaces.settings = _SETTINGS
TestRacesOfBatches = RacesOfBatches.TestCase
TestRacesOfBatches.settings = _SETTINGS
