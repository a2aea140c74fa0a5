"""Decides about calls that take a batch of elements: each begins when it is large or old enough, and bad elements are
found alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from penstock.tasks.calls.element import RETRYING, RUNNING, WAITING, Element
from penstock.tasks.calls.machine import CallMachine, Start
from penstock.topology.options.calls import CallOrder, Calls


class BatchMachine(CallMachine):
    """Like :class:`CallMachine`, for calls with up to ``max_records`` elements; ``listed`` makes a list of a result.

    The call of a batch begins when the batch is full, or when its first element has waited for half of the time that
    the last calls took, but at most for ``max_wait_ms``. Waiting longer would add more to the latency than a larger
    batch saves. If a batch fails, each of its elements is tried again alone, within a time-out of its own, so that only
    the bad one fails.
    """

    def __init__(
        self,
        calls: Calls,
        max_records: int,
        max_wait_ms: int,
        listed: Callable[[Any], Sequence[Any]] = list,
        *,
        in_order: bool,
    ) -> None:
        # Two batches may have elements of one key: only results in order keep the order of keys.
        super().__init__(calls, in_order=in_order or calls.order is not CallOrder.NONE)
        self.chains_keys = False
        self._most_held = max_records * (calls.max_in_flight + 1)
        self._max_records = max_records
        self._max_wait_ms = max_wait_ms
        self._listed = listed
        self._batches: dict[int, list[Element]] = {}
        self._alone: deque[Element] = deque()
        self._since_ms: float | None = None
        self._call_ms = 0.0

    # ---- in ----

    @override
    def succeeded(self, number: int, result: Any, now_ms: float) -> None:
        batch = self._batches.get(number)
        if batch is not None:
            try:
                results = self._listed(result)
                if len(results) != len(batch):
                    raise ValueError(f"the call returned {len(results)} results for {len(batch)} values")
            except Exception as error:
                self.failed(number, error, now_ms)
                return
            del self._batches[number], self.running[number]
            self._call_ms += (now_ms - batch[0].started_ms - self._call_ms) / 4
            if self.breaker is not None:
                self.breaker.succeeded()
            for element, one in zip(batch, results, strict=True):
                self._end(element, now_ms, result=one)
        else:
            self.counts.late += 1

    @override
    def failed(self, number: int, error: Exception, now_ms: float) -> None:
        batch = self._batches.pop(number, None)
        if batch is None or len(batch) == 1:
            super().failed(number, error, now_ms)
            return
        del self.running[number]
        self._count_failure(error, now_ms)
        self.counts.retries += len(batch)
        for element in batch:
            # Its time begins again: the good ones of a large batch must not run out of it behind the others.
            self._started.pop(element, None)
            element.error, element.state, element.tries = error, WAITING, 0
        self._alone += batch

    @override
    def next_due_ms(self) -> float:
        due_ms = super().next_due_ms()
        if self._alone and len(self.running) < self._calls.max_in_flight:
            return min(due_ms, max((limit.due_ms() for limit in self._limits), default=0.0))
        if self._ready and len(self._ready) < self._max_records:
            # Not only must the elements be due: their batch must be old enough.
            others = [next(iter(self._started)).deadline_ms] if self._started else []
            others += [self._retries[0][0]] if self._retries else []
            return min([self._due_ms(), *others])
        return due_ms

    @override
    def close(self) -> None:
        super().close()
        self._batches.clear()
        self._alone.clear()

    @override
    def begin(self, now_ms: float) -> None:
        if self._ready and self._since_ms is None:
            self._since_ms = now_ms
        while len(self.running) < self._calls.max_in_flight:
            if any(limit.due_ms() > now_ms for limit in self._limits):
                return
            if not (batch := self._next_batch(now_ms)):
                return
            for limit in self._limits:
                limit.count(now_ms)
            self._start_batch(batch, now_ms)

    # ---- within ----

    def _due_ms(self) -> float:
        return 0.0 if self._since_ms is None else self._since_ms + min(self._max_wait_ms, self._call_ms / 2)

    def _next_batch(self, now_ms: float) -> list[Element]:
        if self._alone:
            return [self._alone.popleft()]
        ready = self._ready
        while ready and ready[0].tries:  # alone, after a pause
            element = ready.popleft()
            if element.state == WAITING:
                return [element]
        if len(ready) < self._max_records and (not ready or now_ms < self._due_ms()):
            return []
        batch = [ready.popleft() for _ in range(min(len(ready), self._max_records))]
        self._since_ms = now_ms if ready else None
        return batch

    def _start_batch(self, batch: list[Element], now_ms: float) -> None:
        self._numbers += 1
        number = self._numbers
        for element in batch:
            if element not in self._started:
                element.started_ms = now_ms
                element.deadline_ms = now_ms + self._calls.timeout_ms
                self._started[element] = None
            element.tries += 1
            element.state, element.number = RUNNING, number
        self._batches[number] = batch
        self.running[number] = batch[0]
        self.counts.calls += 1
        self.to_start.append(Start(number, batch, batch[0].deadline_ms - now_ms))

    @override
    def _time_out(self, element: Element, now_ms: float) -> None:
        batch = self._batches.pop(element.number, None) if element.state == RUNNING else None
        super()._time_out(element, now_ms)
        for other in batch or ():
            if other is not element:
                other.state = RETRYING  # its try is given up with that of the first
                super()._time_out(other, now_ms)
