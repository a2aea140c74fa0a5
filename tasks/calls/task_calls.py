"""The calls of one task: those of all its operators that call out, between their machines and the host's runner."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.common.ids import TopicPartition
from penstock.state.write_buffer.buffered_store import BufferedStateStore
from penstock.tasks.calls.element import DONE, Element
from penstock.tasks.calls.machine import DRAIN_MS, CallMachine, Start
from penstock.tasks.context import TaskContext
from penstock.tasks.contracts import Call, CallRunner, Finished, WaitingCallRunner

_TOGETHER = 50
"""Results that are taken at a time. Calls begin in the place of those that have ended, before the next results are
taken: otherwise all calls of a task would run at one time, and all their results be processed at another."""

_UNLIMITED_FROM = 1000


@dataclass(eq=False)
class CallingOperator:
    """One operator. ``arguments`` makes those of a try, ``emit`` forwards a result, ``give_up`` takes a failure."""

    name: str
    machine: CallMachine
    function: Callable[..., Any]
    arguments: Callable[[Any], tuple[Any, ...]]
    emit: Callable[[Element], None]
    give_up: Callable[[Element], None]


class TaskCalls:
    """See the module. ``operators``: parents before their children.

    ``time`` and ``partition_time`` are those of the record that is processed now, or of the element whose result is
    forwarded: see :class:`Element`. So are ``lineage`` and the source in the task's context.
    """

    def __init__(self, context: TaskContext, runner: CallRunner, *, all_in_order: bool = False) -> None:
        """``all_in_order``: True if all results are forwarded in the order of the input, whatever the options are."""
        self.all_in_order = all_in_order
        self._context = context
        self.runner = runner
        self.operators: list[CallingOperator] = []
        self.time = -1
        self.partition_time = -1
        self.lineage = ""
        self.observe: Callable[[int], None] = lambda time: None
        """Called with the stream time (ms) that operators downstream may see, before a result is forwarded."""
        self.after_emission: Callable[[], None] = lambda: None
        self.limit: int | None = None
        """Number of records, and of updates in caches upstream, that are held at most, if their calls took too long for
        a transaction. It doubles with each commit."""
        self._most_held = 0  # since the last commit
        self._caches: Sequence[BufferedStateStore] = ()
        self._running: dict[tuple[CallingOperator, int], Call] = {}
        self._finished: deque[Finished] = deque()

    def __bool__(self) -> bool:
        return bool(self.operators)

    @property
    def room(self) -> int:
        """Number of records that may be processed, if each leads to one call at most."""
        room = min([each.machine.room for each in self.operators])
        return room if self.limit is None else min(room, self.limit - self._held)

    @property
    def _held(self) -> int:
        return max([len(each.machine.unfinished) for each in self.operators]) + self._cached

    @property
    def _cached(self) -> int:
        return sum(len(store.buffer.dirty) for store in self._caches)

    def limit_after_abort(self) -> int | None:
        """Returns the ``limit`` for the task that takes this one's place because its transaction was aborted.

        If calls last as long as their time-out allows, some of one key may together last longer than a transaction.
        The same records would be aborted with it again and again.
        """
        return max(1, self._most_held // 4) if self._most_held else self.limit

    def committed(self) -> None:
        """Note that a commit has succeeded: the task may hold more again."""
        self._most_held = 0
        if self.limit is not None:
            self.limit = None if self.limit > _UNLIMITED_FROM else 2 * self.limit

    def drain_before_commits(self, caches: Sequence[BufferedStateStore]) -> None:
        """Hold few calls at a time, because commits wait for all. ``caches``: stores whose flush leads to calls."""
        self._caches = caches
        for each in self.operators:
            each.machine.is_drained = True

    @property
    def must_commit(self) -> bool:
        """True if the calls that the next commit leads to would take long: it must come soon."""
        cached = self._cached
        return cached > 0 and any(each.machine.duration_ms(cached) > DRAIN_MS for each in self.operators)

    @property
    def unfinished(self) -> bool:
        """True if an element is not forwarded yet."""
        return any(each.machine.unfinished for each in self.operators)

    @property
    def holds_time(self) -> bool:
        """True if results that keep the order of the input are not forwarded yet: stream time waits for them."""
        for each in self.operators:  # noqa: SIM110  # asked for each record: any() takes twice as long
            if each.machine.in_order and each.machine.unfinished:
                return True
        return False

    # ---- work ----

    def step(self, now_ms: float) -> int:
        """Take the calls that have ended, forward their results, and begin others. Returns the number of elements that
        were forwarded or have failed."""
        self._finished += self.runner.finished()
        gone = self._take(now_ms)
        while self._finished:
            gone += self._take(now_ms)
        return gone

    def _take(self, now_ms: float) -> int:
        finished = self._finished
        for _ in range(min(_TOGETHER, len(finished))):
            call, result, error = finished.popleft()
            operator, number = call.owner
            self._running.pop((operator, number), None)
            if error is None:
                operator.machine.succeeded(number, result, now_ms)
            else:
                operator.machine.failed(number, error, now_ms)
        gone, self._most_held = 0, max(self._most_held, self._held)
        for operator in self.operators:
            if finished:
                operator.machine.begin(now_ms)  # a call that has ended in time must not time out behind others
            else:
                operator.machine.tick(now_ms)
            gone += self._let_go_on(operator)
        if gone and not self.holds_time:
            self.observe(self.time)
            self.after_emission()
        self._carry_out(now_ms)
        return gone

    def finish(self) -> int:
        """Wait until no call is unfinished. For a host whose runner can wait. Returns as :meth:`step`."""
        runner: WaitingCallRunner = self.runner  # type: ignore[assignment]  # the host's
        gone = self.step(runner.now_ms())
        while self.unfinished:
            done = self.step(runner.now_ms())
            gone += done
            if not done and self.unfinished:
                runner.wait_until(min(each.machine.next_due_ms() for each in self.operators))
        return gone

    def _let_go_on(self, operator: CallingOperator) -> int:
        gone, context = 0, self._context
        before = self.time, self.partition_time, self.lineage
        for element in operator.machine.ended():
            gone += 1
            self.time, self.partition_time = element.time, element.partition_time
            self.lineage = element.lineage
            if operator.machine.in_order:
                self.observe(min([element.time, *self._oldest_times()]))
            place = element.source, element.offset
            current = context.enter_held_back(*place, element.headers, element.timestamp, element.raw)
            try:
                if element.state == DONE:
                    operator.emit(element)
                else:
                    operator.give_up(element)
            finally:
                context.leave_held_back(current)
            self.after_emission()
        self.time, self.partition_time, self.lineage = before
        return gone

    def _oldest_times(self) -> Iterator[int]:
        for each in self.operators:
            if each.machine.in_order and each.machine.unfinished:
                yield next(iter(each.machine.unfinished)).time

    def _carry_out(self, now_ms: float) -> None:
        """Begin and give up the tries that the machines want."""
        calls: list[Call] = []
        for operator in self.operators:
            machine = operator.machine
            if machine.to_cancel:
                numbers, machine.to_cancel = machine.to_cancel, []
                found = [self._running.pop((operator, number), None) for number in numbers]
                self.runner.cancel([call for call in found if call is not None])
            if machine.to_start:
                starts, machine.to_start = machine.to_start, []
                calls += [self._call(operator, start) for start in starts if start.number in machine.running]
        if calls:
            self.runner.start(calls)

    def _call(self, operator: CallingOperator, start: Start) -> Call:
        owner = operator, start.number
        call = self._running[owner] = Call(operator.function, operator.arguments(start.element), start.within_ms, owner)
        return call

    # ---- offsets ----

    def unfinished_from(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """Returns for each partition the offset of its oldest unfinished record, and the largest timestamp before
        it."""
        oldest: dict[TopicPartition, tuple[int, int]] = {}
        for operator in self.operators:
            for element in operator.machine.unfinished:
                source = element.source
                if source is not None and (source not in oldest or element.offset < oldest[source][0]):
                    oldest[source] = element.offset, element.partition_time
        return oldest

    def close(self) -> None:
        """Give up all calls."""
        for operator in self.operators:
            operator.machine.close()
        self._running.clear()
        self._finished.clear()
        self.runner.close()
