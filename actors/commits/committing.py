"""The commits of an actor, each in an order that a crash between any two steps cannot harm (docs/ARCHITECTURE.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from penstock.actors.clock import Clock
from penstock.actors.commit_messages import CommitAnswer
from penstock.actors.commit_stops import CommitStopMeter
from penstock.actors.commits.guarantee import ANSWER_SLICE_S, Guarantee
from penstock.actors.steps import SOON_S, Steps
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.common.ids import TopicPartition
from penstock.kafka.contracts import TransactionAbortedError, UndeliveredError

_FLUSH_SLICE_S = 0.005
DRAIN_WITHIN_S = 5.0
"""Seconds that calls get to end, when their task leaves the actor or the actor ends."""


def delivery(guarantee: Guarantee) -> Steps[None]:
    """Wait until the broker has all sent records. Raises as :meth:`RecordProducer.flush` does."""
    sent = guarantee.producer.mark()
    while not sent.delivered():
        guarantee.check()
        guarantee.producer.flush(_FLUSH_SLICE_S)
        yield SOON_S
    guarantee.check()


class Commit:
    """One commit of ``tasks``, some of those that are ``running``: takes a snapshot of each, then commits it.

    ``beside_records``: once the snapshots are taken, records may be processed between the steps. With a transaction
    they may not, because it would also commit what those records write.
    """

    def __init__(
        self,
        tasks: Sequence[HostedTask],
        running: Sequence[HostedTask],
        guarantee: Guarantee,
        clock: Clock,
        beside_records: bool,
        drain_within_s: float = math.inf,
    ) -> None:
        """``drain_within_s``: seconds that all tasks may take to end their calls; infinity: only those whose commit
        must wait for their calls do, and as long as their calls may last."""
        self.tasks = list(tasks)
        self.records_may_run = False
        """True if a record of a task that is not ``held`` may be processed before the next step."""
        self.held = frozenset(tasks)
        """Tasks with a store that cannot take changes until the commit has ended."""
        self.blocks_records = not beside_records
        """True if no record may be processed before it has ended."""
        self.drains = False
        """True while it waits for calls that may last long, and has not begun to commit."""
        self._running = running
        self._guarantee = guarantee
        self._producer = guarantee.producer
        self._clock = clock
        self._beside_records = beside_records
        self._drain_within_s = drain_within_s
        self._until_s = math.inf

    def hurry(self) -> None:
        """Give the calls some seconds to end, from the first call of this method on, because a job waits for them."""
        self._until_s = min(self._until_s, self._clock.monotonic_s() + DRAIN_WITHIN_S)

    def forget(self, failed: HostedTask) -> None:
        """Continue without this task, whose changes do not count."""
        self.tasks = [hosted for hosted in self.tasks if hosted is not failed]

    def steps(self) -> Steps[CommitAnswer]:
        """Flush downstream and to the changelogs, let Kafka take the offsets, then write the stores.

        A crash before the stores are written leaves them at the commit before, with its changelog offsets: the rest is
        restored. If the answer is a refusal, the tasks must be closed, since their changes do not count.
        """
        self._until_s = self._clock.monotonic_s() + self._drain_within_s
        yield from self._drain()
        for hosted in self.tasks:
            for _ in hosted.take_snapshot():  # the updates that a cache releases may lead to calls
                if hosted.has_calls and self._clock.monotonic_s() >= self._until_s:
                    raise self._late([hosted])
                yield self._step_calls([hosted])
        before_flush = self._producer.mark()
        self.held = frozenset(it for it in self.tasks if not it.state_manager.takes_changes_while_committed)
        self.records_may_run = self._beside_records and not self.held.issuperset(self._running)
        yield from self._flush()
        flushed = self._producer.mark()
        while not flushed.delivered():
            yield self._wait_for_the_broker()
        self._note_changelog_ends(before_flush.ends())
        if not self.tasks:
            return CommitAnswer(True)
        ends = flushed.ends()
        offsets = {tp: offset for hosted in self.tasks for tp, offset in hosted.to_commit(ends).items()}
        answer = yield from self._guarantee.commit(offsets)
        if answer.accepted:
            for hosted in self.tasks:
                for _ in hosted.has_committed(self._clock.wall_ms()):
                    yield 0.0
                yield 0.0
        self._note_changelog_ends(ends)
        return answer

    # ---- calls ----

    def _drain(self) -> Steps[None]:
        """Wait for the end of calls, while other tasks take records. A task whose calls have not ended in time keeps
        them if it may commit while they run. Otherwise it is not committed, or the transaction is aborted."""
        exactly_once = self._guarantee.exactly_once
        bounded = self._drain_within_s < math.inf
        while True:
            # Under exactly once, the transaction also commits what other tasks do meanwhile.
            tasks = self._running if exactly_once else self.tasks
            waiting = [it for it in tasks if it.task.calls is not None and (bounded or it.task.drains_calls)]
            self.held = frozenset(waiting)
            if not any(hosted.has_calls for hosted in waiting) or self._clock.monotonic_s() >= self._until_s:
                break
            self.records_may_run = self.drains = not bounded
            yield self._step_calls(waiting)
        self.records_may_run = self.drains = False
        if exactly_once:
            self.tasks = [hosted for hosted in self._running if hosted.needs_commit]
        self.held = frozenset(self.tasks)
        late = [hosted for hosted in waiting if hosted.has_calls and hosted.task.drains_calls]
        if late and exactly_once:
            raise self._late(late)
        for hosted in late:
            self.forget(hosted)

    def _late(self, tasks: Sequence[HostedTask]) -> UndeliveredError:
        kind = TransactionAbortedError if self._guarantee.exactly_once else UndeliveredError
        names = ", ".join(str(hosted.id) for hosted in tasks)
        return kind(f"the calls of task {names} have not ended within {DRAIN_WITHIN_S:g} s")

    def _step_calls(self, tasks: Sequence[HostedTask]) -> float:
        """Let calls of ``tasks`` end. Returns the seconds to wait for others, 0 if some have ended."""
        now_ms, waits = self._clock.wall_ms(), False
        for hosted in tasks:
            waits = waits or (not hosted.step_calls(now_ms, self._clock.monotonic_s) and hosted.has_calls)
        return ANSWER_SLICE_S if waits else 0.0

    # ---- flush ----

    def _flush(self) -> Steps[None]:
        for hosted in self.tasks:
            if hosted not in self.tasks:  # forgotten while those before it were flushed
                continue
            for _ in hosted.flush_snapshot():
                yield 0.0
                if hosted not in self.tasks:
                    break

    def _wait_for_the_broker(self) -> float:
        self._guarantee.check()
        if not self.blocks_records:
            self._producer.poll()
            return ANSWER_SLICE_S
        self._producer.flush(_FLUSH_SLICE_S)
        return SOON_S

    def _note_changelog_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        for hosted in self._running:
            hosted.has_logged(ends)


class Commits:
    """Knows when the next commit is due, which one is under way while records are processed, and how each has ended."""

    def __init__(self, guarantee: Guarantee, clock: Clock, interval_s: float) -> None:
        self.under_way: Commit | None = None
        self.accepted = 0
        self.stops = CommitStopMeter(clock.monotonic_s)
        self._steps: Steps[CommitAnswer] | None = None
        self._guarantee = guarantee
        self._clock = clock
        self._interval_s = interval_s
        self._due_s = 0.0
        self.postpone()

    @property
    def is_due(self) -> bool:
        """True if the interval has passed since the last commit."""
        return self._clock.monotonic_s() >= self._due_s

    def postpone(self) -> None:
        """Make the next commit due one interval from now."""
        self._due_s = self._clock.monotonic_s() + self._interval_s

    def _commit(
        self, tasks: Sequence[HostedTask], running: Sequence[HostedTask], beside_records: bool, within_s: float
    ) -> Commit:
        assert self.under_way is None
        return Commit(tasks, running, self._guarantee, self._clock, beside_records, within_s)

    def begin(self, running: Sequence[HostedTask], may_run_beside_records: bool) -> None:
        """Begins a commit of those of these tasks that need one; call :meth:`step` until it has ended."""
        tasks = []
        for hosted in running:
            if hosted.needs_commit:
                tasks.append(hosted)
            else:
                # It lacks nothing of its changelogs, although they may end later: after the last record there may be
                # markers of transactions. Without this note, after days without a record, the gap would look like
                # missed deletions.
                hosted.directory.note_commit(self._clock.wall_ms())
        if tasks:
            beside_records = self._guarantee.beside_records and may_run_beside_records
            self.under_way = self._commit(tasks, running, beside_records, math.inf)
            self._steps = self.under_way.steps()
        else:
            self.postpone()

    @property
    def held(self) -> frozenset[HostedTask]:
        """The tasks whose records wait for the commit under way, even if those of other tasks may be processed."""
        return frozenset() if self.under_way is None else self.under_way.held

    def step(self, blocks_records: bool) -> tuple[float, CommitAnswer | None]:
        """Take a step of the commit under way. Returns the seconds that the next step may wait, and at the end the
        answer."""
        assert self.under_way is not None
        assert self._steps is not None
        self.under_way.blocks_records = blocks_records
        self.stops.stop()
        try:
            return next(self._steps), None
        except StopIteration as end:
            self.under_way = self._steps = None
            self.postpone()
            return 0.0, self._finished(end.value)

    def run(self, tasks: Sequence[HostedTask], running: Sequence[HostedTask]) -> Steps[CommitAnswer]:
        """Commit those of ``tasks`` that need it, while records wait. Their calls get some seconds to end. No other
        commit may be under way."""
        taken = running if self._guarantee.exactly_once else tasks
        tasks = [hosted for hosted in taken if hosted.needs_commit or hosted.has_calls]
        if not tasks:
            return CommitAnswer(True)
        self.stops.stop()
        answer = yield from self._commit(tasks, running, beside_records=False, within_s=DRAIN_WITHIN_S).steps()
        return self._finished(answer)

    def _finished(self, answer: CommitAnswer) -> CommitAnswer:
        self.stops.finished(answer.accepted)
        self.accepted += answer.accepted
        return answer

    def forget(self, failed: HostedTask) -> None:
        """Have the commit under way, if any, continue without this task."""
        if self.under_way is not None:
            self.under_way.forget(failed)

    def abandon(self) -> None:
        """Drops the commit under way, if any: its tasks end, or go back to the last commit."""
        if self._steps is not None:
            self._steps.close()
        self.under_way = self._steps = None

    def aborted(self) -> None:
        """Drops the commit under way, if any, because the tasks go back to the last commit."""
        self.abandon()
        self.stops.finished(accepted=False)
        self.postpone()
