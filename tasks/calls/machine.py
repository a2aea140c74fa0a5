"""Decides about the calls of one operator in one task: the times at which each begins, is tried again, is given up, and
is forwarded.

Pure: no clock, no thread. Events come in by :meth:`~CallMachine.submit`, :meth:`~CallMachine.tick`,
:meth:`~CallMachine.succeeded`, :meth:`~CallMachine.failed` and :meth:`~CallMachine.close`, with the time. The host
reads its instructions from ``to_start``, ``to_cancel`` and :meth:`~CallMachine.ended`.

Each element ends exactly once. Every try has a number of its own, and counts only while its number is in ``running``.
So the result of a try that was given up, or that comes twice, changes no element.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

from penstock.common.errors import CallTimeoutError
from penstock.common.murmur2 import murmur2
from penstock.tasks.calls.answers import SharedAnswers
from penstock.tasks.calls.element import (
    DONE,
    FAILED,
    FOLLOWING,
    GONE,
    RETRYING,
    RUNNING,
    WAITING,
    Element,
)
from penstock.tasks.calls.pace import BreakerState, CircuitBreaker, Rate
from penstock.tasks.calls.retry_after import retry_after_ms
from penstock.topology.options.calls import CallOrder, Calls

DRAIN_MS = 2_000.0
"""The approximate time that calls may take if commits wait for them. A transaction that is open for 10 s is aborted,
and the task would read the same records again, for ever."""
_UNKNOWN_MS = DRAIN_MS / 8
"""The time of a call, before one has ended."""
_HELD_PER_CALL = 2
"""Number of elements that an operator holds at most, for each call that may run: some wait for their key, or for their
turn."""
_NEVER = float("inf")


class Start(NamedTuple):
    """A try that is to begin: of an element, or of a batch of them. ``within_ms``: the time that is left for it."""

    number: int
    element: Any
    within_ms: float


class CallCounts:
    """Counters of an operator since its task began."""

    __slots__ = ("calls", "durations_ms", "failures", "late", "retries", "timeouts")

    def __init__(self) -> None:
        self.calls = self.retries = self.timeouts = self.failures = self.late = 0
        self.durations_ms: deque[float] = deque(maxlen=1000)
        """The times from the first try of an element to its end, for the last elements."""


class CallMachine:
    """``in_order``: True if results are forwarded in the order in which their elements came."""

    def __init__(self, calls: Calls, *, in_order: bool) -> None:
        self._calls = calls
        self._retry = calls.retry
        self.in_order = in_order
        self.chains_keys = calls.order is CallOrder.KEY
        self._most_held = calls.max_in_flight * _HELD_PER_CALL
        self.unfinished: dict[Element, None] = {}
        """The elements that are not forwarded yet, in the order in which they came."""
        self.held_bytes = 0
        self.running: dict[int, Element] = {}
        """The tries that run, by number."""
        self.to_start: list[Start] = []
        self.to_cancel: list[int] = []
        self.counts = CallCounts()
        self.breaker = None if calls.breaker is None else CircuitBreaker(calls.breaker)
        self.answers = SharedAnswers(calls.cache, calls.collapse) if calls.shares else None
        self._limits = [each for each in (self.breaker, calls.max_rate and Rate(calls.max_rate)) if each]
        self._ready: deque[Element] = deque()
        self._chains: dict[Hashable, deque[Element] | None] = {}
        self._started: dict[Element, None] = {}  # in the order of their deadlines
        self._retries: list[tuple[float, int, Element]] = []
        self._ended: deque[Element] = deque()
        self._numbers = 0
        self.is_drained = False
        """True if commits wait for the end of all calls: then few elements of one chain are held."""
        self._long_chain: Hashable = None
        self._mean_ms = _UNKNOWN_MS

    @property
    def room(self) -> int:
        """Number of elements that may be submitted; 0 or less if it is full."""
        if self.held_bytes >= self._calls.max_bytes:
            return 0
        if self._long_chain is not None:
            if len(self._chains.get(self._long_chain) or ()) * self._mean_ms > DRAIN_MS:
                return 0
            self._long_chain = None
        return self._most_held - len(self.unfinished)

    def duration_ms(self, elements: int) -> float:
        """Returns the time that the calls of so many elements would take, if none waits for another."""
        return elements * self._mean_ms / self._calls.max_in_flight

    # ---- in ----

    def submit(self, element: Element) -> None:
        """Take an element. Its call begins with a later :meth:`tick`."""
        self.unfinished[element] = None
        self.held_bytes += element.size
        chain = element.chain
        if chain is None:
            self._ready.append(element)
        elif chain not in self._chains:
            self._chains[chain] = None
            self._ready.append(element)
        else:
            waiting = self._chains[chain]
            if waiting is None:
                waiting = self._chains[chain] = deque()
            waiting.append(element)
            if self.is_drained and len(waiting) * self._mean_ms > DRAIN_MS:
                self._long_chain = chain

    def tick(self, now_ms: float) -> None:
        """Give up the elements whose time is over, and begin those that may begin."""
        started = self._started
        while started:
            first = next(iter(started))
            if first.deadline_ms > now_ms:
                break
            self._time_out(first, now_ms)
        if self._retries and self._retries[0][0] <= now_ms:
            self._try_again(now_ms)
        self.begin(now_ms)

    def begin(self, now_ms: float) -> None:
        """Begin the calls that may begin. Give up none: the ends of some may not have been reported yet."""
        ready, running, most, limits = self._ready, self.running, self._calls.max_in_flight, self._limits
        while ready and len(running) < most:
            if limits and any(limit.due_ms() > now_ms for limit in limits):
                return
            element = ready.popleft()
            if element.state != WAITING:  # it was given up between two tries
                continue
            if self.answers is not None and element.tries == 0 and self._shares(element, now_ms):
                continue
            for limit in limits:
                limit.count(now_ms)
            self._start(element, now_ms)

    def succeeded(self, number: int, result: Any, now_ms: float) -> None:
        """Take the result of a try."""
        element = self.running.pop(number, None)
        if element is None:
            self.counts.late += 1
            return
        if self.breaker is not None:
            self.breaker.succeeded()
        self._end(element, now_ms, result=result)

    def failed(self, number: int, error: Exception, now_ms: float) -> None:
        """Take the error of a try."""
        element = self.running.pop(number, None)
        if element is None:
            self.counts.late += 1
            return
        again = self._count_failure(error, now_ms)
        element.error = error
        if self._retry is not None and again and element.tries < self._retry.tries:
            due_ms = now_ms + self._pause_ms(element, error)
            if due_ms < element.deadline_ms:
                self.counts.retries += 1
                element.state = RETRYING
                self._numbers += 1
                heappush(self._retries, (due_ms, self._numbers, element))
                return
        self._end(element, now_ms, error=error)

    def close(self) -> None:
        """Give up everything. Nothing is forwarded any more."""
        self.to_cancel += self.running
        for element in self.unfinished:
            element.state = GONE
        for each in (self.running, self.unfinished, self._ready, self._chains, self._started, self._retries):
            each.clear()
        self._ended.clear()
        self.to_start.clear()
        self.held_bytes = 0

    # ---- out ----

    def ended(self) -> Iterator[Element]:
        """Yields the elements that are DONE or FAILED, each once, in the order in which they are forwarded. Each has
        left the operator when it is yielded."""
        if self.in_order:
            unfinished = self.unfinished
            while unfinished:
                first = next(iter(unfinished))
                if first.state not in (DONE, FAILED):
                    return
                yield self._leave(first)
        else:
            while self._ended:
                yield self._leave(self._ended.popleft())

    def next_due_ms(self) -> float:
        """Returns the time at which :meth:`tick` has something to do, if nothing happens before."""
        due_ms = next(iter(self._started)).deadline_ms if self._started else _NEVER
        if self._retries:
            due_ms = min(due_ms, self._retries[0][0])
        if self._ready and len(self.running) < self._calls.max_in_flight:
            due_ms = min(due_ms, max((limit.due_ms() for limit in self._limits), default=0.0))
        return due_ms

    @property
    def breaker_state(self) -> BreakerState:
        """The state of the circuit breaker; CLOSED if there is none."""
        return BreakerState.CLOSED if self.breaker is None else self.breaker.state

    # ---- within ----

    def _try_again(self, now_ms: float) -> None:
        due, retries = [], self._retries
        while retries and retries[0][0] <= now_ms:
            element = heappop(retries)[2]
            if element.state == RETRYING:
                element.state = WAITING
                due.append(element)
        self._ready.extendleft(reversed(due))

    def _start(self, element: Element, now_ms: float) -> None:
        if element.tries == 0:
            element.started_ms = now_ms
            element.deadline_ms = now_ms + self._calls.timeout_ms
            self._started[element] = None
        element.tries += 1
        element.state = RUNNING
        self._numbers += 1
        number = element.number = self._numbers
        self.running[number] = element
        self.counts.calls += 1
        self.to_start.append(Start(number, element, element.deadline_ms - now_ms))

    def _shares(self, element: Element, now_ms: float) -> bool:
        """Returns True if the element needs no call of its own."""
        assert self.answers is not None
        if element.same is None:
            return False
        found, result = self.answers.kept(element, now_ms)
        if found:
            element.started_ms = now_ms
            self._end(element, now_ms, result=result)
            return True
        leader = self.answers.leader(element)
        if leader is None:
            return False
        element.state, element.started_ms = FOLLOWING, now_ms
        if leader.followers is None:
            leader.followers = []
        leader.followers.append(element)
        return True

    def _time_out(self, element: Element, now_ms: float) -> None:
        if element.state == RUNNING:
            del self.running[element.number]
            self.to_cancel.append(element.number)
            if self.breaker is not None:
                self.breaker.failed(now_ms)
        self.counts.timeouts += 1
        last = "" if element.error is None else f"; the last error: {type(element.error).__name__}: {element.error}"
        error = CallTimeoutError(f"no result within {self._calls.timeout_ms:,} ms ({tried(element.tries)}{last})")
        error.__cause__ = element.error
        self._end(element, now_ms, error=error)

    def _end(self, element: Element, now_ms: float, result: Any = None, error: Exception | None = None) -> None:
        self._started.pop(element, None)
        element.result, element.error, element.ended_ms = result, error, now_ms
        element.state = DONE if error is None else FAILED
        self.counts.durations_ms.append(spent_ms := now_ms - element.started_ms)
        self._mean_ms += (spent_ms - self._mean_ms) / 16
        self.counts.failures += error is not None
        if not self.in_order:
            self._ended.append(element)
        chain = element.chain
        if chain is not None:
            waiting = self._chains[chain]
            if waiting:
                self._ready.append(waiting.popleft())
            else:
                del self._chains[chain]
        if self.answers is not None and element.same is not None:
            self.answers.ended(element, now_ms, error is None)
            followers, element.followers = element.followers, None
            for follower in followers or ():
                self._end(follower, now_ms, result, error)

    def _leave(self, element: Element) -> Element:
        del self.unfinished[element]
        self.held_bytes -= element.size
        return element

    def _count_failure(self, error: Exception, now_ms: float) -> bool:
        """Report a failed try to the circuit breaker. Returns True if the call is worth another try."""
        again = self._is_worth_a_try(error)
        if self.breaker is not None:
            if again:
                self.breaker.failed(now_ms)
            else:
                self.breaker.succeeded()  # the service has answered
        return again

    def _is_worth_a_try(self, error: Exception) -> bool:
        if self._retry is None:
            return True
        try:
            return self._retry.applies(error)
        except Exception:  # the call has failed anyway: its own error is the one to report
            return False

    def _pause_ms(self, element: Element, error: Exception) -> float:
        retry = self._retry
        assert retry is not None
        try:
            pause_ms = min(retry.backoff_ms * retry.factor ** (element.tries - 1), retry.max_backoff_ms)
        except OverflowError:  # after a thousand tries
            pause_ms = retry.max_backoff_ms if retry.backoff_ms else 0
        # Not random: a simulation must have the same result each time.
        drawn = murmur2(f"{element.offset} {element.lineage} {element.tries}".encode()) % 1000 / 1000
        return max(pause_ms * (1 - drawn / 5), retry_after_ms(error))


def tried(tries: int) -> str:
    """Returns a number of tries as text."""
    return "1 try" if tries == 1 else f"{tries} tries"
