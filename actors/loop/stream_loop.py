"""The stream loop: reads, processes, commits and answers queries for the tasks of one actor, in one thread.

Mirrors ``StreamThread``. All work is divided into pieces of about 2 ms, and between two pieces the loop serves its
command queue. So a query sees the tasks between two records, never during one, and needs no lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import assert_never

from penstock.actors.audit_messages import AuditAnswer, AuditStep
from penstock.actors.calls.call_host import CallHost, LiveCalls
from penstock.actors.checkpoints.fetching import CheckpointFetching
from penstock.actors.checkpoints.storage import CheckpointStorage
from penstock.actors.checkpoints.taking import CheckpointTaking
from penstock.actors.clock import Clock, SystemClock
from penstock.actors.commits.committing import Commit, Commits
from penstock.actors.commits.exactly_once import guarantee_of
from penstock.actors.failure import UncaughtErrors, close_all, describe_error
from penstock.actors.loop.actor_status import statuses
from penstock.actors.loop.answers import QueryExecutor
from penstock.actors.loop.assignment import Assignment
from penstock.actors.loop.audit_points import AuditPoints
from penstock.actors.loop.garbage import GarbageMeter
from penstock.actors.loop.hosted_tasks import HostedTasks
from penstock.actors.loop.jobs import Jobs, reject
from penstock.actors.loop.lease import Lease
from penstock.actors.loop.mailbox import Mailbox
from penstock.actors.loop.questions import Committer, Questions
from penstock.actors.loop.source_reader import SourceReader
from penstock.actors.loop.standstill import Standstill
from penstock.actors.loop.task_opening import TaskOpening
from penstock.actors.loop.thread_time import ThreadTime
from penstock.actors.orders import Assign, Order, Pause, Stop, Suspend
from penstock.actors.restore.global_stores import GlobalStores
from penstock.actors.restore.restoration import Restoration
from penstock.actors.spec import ApplicationSpec
from penstock.actors.standbys.standbys import Standbys
from penstock.actors.status import ActorStatus
from penstock.actors.steps import Steps
from penstock.actors.store_queries import StoreAnswer, StoreQuery
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.actors.task_host.refused_records import with_writer
from penstock.actors.task_host.state_cleanup import StateCleaner
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import Sources
from penstock.common.log import at_work, logger
from penstock.kafka.clients import KafkaClients
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.program import TaskPrograms

IDLE_WAIT_S = 0.005
"""Longest wait, in seconds, of a loop that has had nothing to do for a while; a command wakes it at once."""
_FIRST_IDLE_WAIT_S = 0.0005  # between two fetches of a busy partition there may be no records for a moment
_PUNCTUATE_EVERY_MS = 5


class StreamLoop:
    """One per actor. The methods that may be called from any thread are marked below; the others are called from one.

    ``finished`` gets None after a stop, or the text of the error that ended the loop. No change of a task that failed
    is committed after its last good commit.

    ``slot`` and ``process_id``: exactly once, the parts of the ``transactional.id`` that no other actor in this Ray
    cluster has, and no other cluster of the application. The loop writes only while ``lease`` lasts. ``calls`` makes
    what runs the calls out of its tasks, from a function that wakes the loop. ``garbage`` measures the collector.
    """

    def __init__(
        self,
        spec: ApplicationSpec,
        actor_id: str,
        clients: KafkaClients,
        committer: Committer,
        clock: Clock | None = None,
        node_id: str = "",
        slot: int = 0,
        process_id: str = "",
        *,
        lease: Lease,
        calls: Callable[[Callable[[], None]], CallHost] = LiveCalls,
        garbage: GarbageMeter | None = None,
    ) -> None:
        self.finished: Future[str | None] = Future()
        self._actor_id, self._node_id, self._slot = actor_id, node_id, slot
        self._clock: Clock = clock or SystemClock()
        self._log = logger(__name__).bind(actor=actor_id)
        self._mailbox = Mailbox(self._ended_error)
        self._time = ThreadTime(self._clock.monotonic_s, self._mailbox, garbage)
        self._jobs, self._calls = Jobs(self._mailbox), calls(self._mailbox.wake)
        self._job: Steps[None] | None = None
        self._stopped: Future[None] | None = None
        self._failed_with: str | None = None
        self.uncaught = UncaughtErrors(spec.uncaught_exception_handler, self._log)
        self._current: HostedTask | None = None  # stays set when an exception leaves a step: _fail blames this task
        self._waits, self._next_punctuation_ms, self._idle_wait_s = False, 0, 0.0
        root, self._begun_s = spec.config.state_dir / spec.application_id, self._clock.monotonic_s()
        self._cleaner = StateCleaner(root, spec.config.state_cleanup_delay_ms, self._clock)
        self._consumer, admin = clients.consumer(), clients.admin()
        questions = Questions(actor_id, committer, lambda: self._assignment.epoch, self._mailbox.wake)
        awaited = self._jobs.is_awaited
        self._guarantee = guarantee_of(spec.config, process_id, slot, clients, questions, awaited, self._clock)
        self.standstill = Standstill(lease, self._guarantee, self._clock.monotonic_s, self._log)
        self._commits = Commits(self._guarantee, self._clock, spec.config.commit_interval_ms / 1000)
        self._reader = SourceReader(self._consumer, admin, self._clock, spec.config.buffered_records_per_partition)
        storage, interval_s = CheckpointStorage.of(spec.config), spec.config.state_checkpoint_interval_ms / 1000
        self._taking = CheckpointTaking(storage, interval_s, self._clock)
        fetching = self._fetching = CheckpointFetching(storage, self._clock)
        self._restoration = Restoration(
            clients.restore_consumer, admin, self._clock, spec.restore_listener, self._guarantee.exactly_once, fetching
        )
        self._budget = MemoryBudget(spec.config.statestore_cache_max_bytes, spec.config.entries_memory_bytes)
        self._globals = GlobalStores(spec, clients.consumer, admin, self._budget, self._clock)
        programs = TaskPrograms(spec.topology, spec.config)
        self._standbys = Standbys(
            spec, programs, clients.consumer, admin, self._guarantee, self._budget, self._clock, fetching
        )
        self._hosted = self._tasks_opened_by(TaskOpening(
            programs, self._standbys, self._consumer, admin, self._guarantee, self._budget, self._globals, self._calls,
            self._clock,
        ))  # fmt: skip
        self._tasks, self._running = self._hosted.by_id, self._hosted.running
        self._assignment = Assignment(self._hosted, self._standbys, self._commits, self._guarantee, self._log)
        self._audits = AuditPoints(root, self._hosted, self._reader, self._assignment, self._clock, node_id)
        self._queries = QueryExecutor(self._tasks, self._standbys.by_id, self._globals)
        # Tasks need the global stores.
        self._jobs += [*self._guarantee.opening(), *self._globals.opening(lambda: self._stopped is not None)]

    def _tasks_opened_by(self, opening: TaskOpening) -> HostedTasks:
        return HostedTasks(
            opening, self._restoration, self._standbys, self._globals, self._reader, self._guarantee, self._taking,
            is_superseded=self._jobs.is_awaited, clock=self._clock, log=self._log,
        )  # fmt: skip

    # ---- from any thread ----

    def take(self, order: Order) -> Future[None]:
        """Carry out ``order``; may be repeated. The future is done as the order describes."""
        match order:
            case Assign(epoch, sources, standbys):
                return self.assign(epoch, sources, standbys)
            case Suspend(epoch):
                return self.suspend(epoch)
            case Pause(paused):
                return self.pause(paused)
            case Stop():
                return self.stop()
            case _:
                assert_never(order)

    def assign(self, epoch: int, sources: Sources, standbys: Sources | None = None) -> Future[None]:
        """See :class:`~penstock.actors.orders.Assign`. A task that was a standby here is promoted; an epoch below the
        current one changes nothing."""
        return self._jobs.promise(lambda done: self._assignment.take(epoch, sources, standbys or {}, done))

    def query(self, queries: Sequence[StoreQuery]) -> Future[list[StoreAnswer]]:
        """Returns the answers, in the order of the questions. Ranges are read in chunks; tasks continue in between."""
        done: Future[list[StoreAnswer]] = Future()
        self._mailbox.ask(lambda: self._queries.submit(queries, done)).add_done_callback(partial(reject, done))
        return done

    def status(self) -> Future[ActorStatus]:
        """Returns the status of the actor, also after its end."""
        if not self.finished.done():
            return self._mailbox.ask(self._status)
        ended: Future[ActorStatus] = Future()
        ended.set_result(self._status())
        return ended

    def suspend(self, epoch: int) -> Future[None]:
        """See :class:`~penstock.actors.orders.Suspend`."""
        return self._jobs.promise(lambda done: self._assignment.suspend(epoch, done))

    def pause(self, paused: bool) -> Future[None]:
        """See :class:`~penstock.actors.orders.Pause`."""
        return self._mailbox.ask(lambda: self._hosted.pause(paused))

    def audit(self, step: AuditStep) -> Future[AuditAnswer]:
        """Take part in an audit point: see :mod:`penstock.actors.audit_messages`."""
        done: Future[AuditAnswer] = Future()
        self._mailbox.ask(lambda: self._audits.take(step, done)).add_done_callback(partial(reject, done))
        return done

    def stop(self) -> Future[None]:
        """See :class:`~penstock.actors.orders.Stop`. Idempotent."""
        if self._stopped is None:
            self._stopped = self._jobs.promise(lambda done: self._ending(stopped=done))
        return self._stopped

    @property
    def in_doubt(self) -> bool:
        """True if the last commit is in doubt (see the glossary)."""
        return self._guarantee.in_doubt

    def _ended_error(self) -> ApplicationStateError:
        why = self.finished.result() if self.finished.done() else None
        return ApplicationStateError(f"actor {self._actor_id} has ended: {why or 'it was stopped'}")

    # ---- in the loop's thread ----

    def run(self) -> None:
        """Loop until stopped or failed."""
        wait_s = 0.0
        at_work(self._task_at_work)
        while not self.finished.done():
            wait_s = self.step(wait_s)

    def _task_at_work(self) -> str | None:
        return str(hosted.id) if (hosted := self._current or self._hosted.at_work) is not None else None

    def step(self, wait_s: float = 0.0) -> float:
        """Wait at most ``wait_s`` for a command, then work about 2 ms. Returns the seconds that the next call may
        wait."""
        try:
            idle = self._job is None and self._commits.under_way is None
            self._time.answer(self._queries, wait_s, idle, self._hosted, self._reader)
            if self.standstill.enforce():
                self._waits = True
                return IDLE_WAIT_S
            if self._commits.under_way is not None:
                return self._commit_beside_records(self._commits.under_way)
            if self._job is None and self._jobs:
                self._job = self._jobs.popleft()
            if self._job is None:
                return self._round()
            try:
                next_s = next(self._job)
            except StopIteration:
                self._job, next_s = None, 0.0
            self._waits = next_s > 0
            return next_s
        except BaseException as error:  # the callers that wait for the loop must get it, whatever it is
            if (back := self._hosted.going_back(error)) is None:
                self._fail(error)
            else:
                self._job = self._current = None
                self._commits.abandon()
                self._jobs.appendleft(self._assignment.go_back(back))
            return 0.0

    def _round(self) -> float:
        self._guarantee.check()
        now_ms = self._clock.wall_ms()
        busy, again = self._time.restore(self._hosted)
        self._jobs += [*again, *self._audits.step()]
        if self._hosted.has_fetched:
            self._jobs.append(self._assignment.take_fetched())
        self._taking.step(self._running, self._assignment.epoch)
        if self._hosted.may_process and self._globals.ready:
            if self._reader.is_due(self._running):
                busy = self._fetch() or busy
            busy = self._process(now_ms) or busy
            self._guarantee.producer.poll()
            if now_ms >= self._next_punctuation_ms:
                self._punctuate(now_ms)
        elif self._hosted.paused:
            busy = self._hosted.let_calls_end() or busy
        if self._commits.under_way is None and not self._jobs:
            if self._commit_is_due():
                self._reader.pass_over_markers(self._running)
                # While a commit frees memory, records would fill it again.
                self._commits.begin(self._running, may_run_beside_records=not self._budget.needs_commit)
                return 0.0
            if self._cleaner.is_due:
                self._jobs.append(self._cleaner.clean(self._hosted.directories))
                return 0.0
        self._idle_wait_s = 0.0 if busy else min(max(self._idle_wait_s * 2, _FIRST_IDLE_WAIT_S), IDLE_WAIT_S)
        return self._idle_wait_s

    # ---- records ----

    def _fetch(self) -> bool:
        fetched = False
        for hosted, batch in self._reader.fetch(self._running):
            fetched = True
            self._current = hosted
            hosted.add(batch)
        self._current = None
        if lost := self._reader.lost_positions():
            self._jobs.append(self._reader.reset(lost, self._jobs.is_awaited))
        return fetched

    def _process(self, now_ms: int) -> bool:
        busy = False
        clock, alone = self._clock.monotonic_s, len(self._running) == 1
        held = self._commits.held
        for hosted in self._running:
            self._current = hosted
            if hosted.has_several_inputs:
                # Also for partitions with queued records, which may run out in the call below. If a partition has grown
                # since the last fetch, the old knowledge would not hold later records back; a fetch need not bring any.
                self._reader.update_caught_up(hosted)
            done = 0 if hosted in held else hosted.process(now_ms, clock)
            self._current, busy = None, busy or done > 0
            if not alone or self._reader.pauses or hosted.may_leave_records:
                busy = self._reader.throttle(hosted) or busy
            if not self._mailbox.empty:
                self._mailbox.serve(0.0)
        return busy

    def _punctuate(self, now_ms: int) -> None:
        self._next_punctuation_ms = now_ms + _PUNCTUATE_EVERY_MS
        for hosted in self._running:
            self._current = hosted
            if hosted not in self._commits.held:
                hosted.punctuate(now_ms, self._clock.monotonic_s)
        self._current = None

    # ---- commit ----

    def _commit_is_due(self) -> bool:
        due = self._commits.is_due or self._budget.needs_commit
        return due or any(hosted.task.commit_requested for hosted in self._running)

    def _commit_beside_records(self, commit: Commit) -> float:
        """Take a step of the commit, and a round unless records would delay a job that waits for the commit, or would
        take too much memory."""
        if self._jobs and commit.drains:
            self._commits.abandon()  # nothing is committed yet, and the job commits what it must
            return 0.0
        if self._jobs:
            commit.hurry()
        free = commit.records_may_run and not self._jobs and not self._budget.is_full
        wait_s, answer = self._commits.step(blocks_records=not free)
        self._waits = wait_s > 0
        if answer is not None:
            if not answer.accepted:
                self._jobs.appendleft(self._assignment.drop_refused(commit.tasks, answer.reason))
            return 0.0
        if not free:
            return wait_s
        self._commits.stops.resume()
        return min(wait_s, self._round())

    # ---- status ----

    def _status(self) -> ActorStatus:
        error = self.finished.result() if self.finished.done() else None
        stopping, now_s = self._stopped is not None, self._clock.monotonic_s()
        tasks, measured = statuses(
            list(self._tasks.values()), self._hosted.meters, self._reader, self._restoration, self._commits,
            self._taking, self._time, self._clock, stopping=stopping, ended=self.finished.done(),
        )  # fmt: skip
        return ActorStatus(
            self._actor_id, self._node_id, os.getpid(), self._assignment.epoch, tasks,
            commits=self._commits.accepted, error=error, stopping=stopping, slot=self._slot,
            aborted_transactions=self._hosted.aborted, commit_stops=self._commits.stops.summary(),
            global_dropped_records=self._globals.dropped_records, paused=self._hosted.paused,
            standbys=self._standbys.status(), measured=measured, running_s=now_s - self._begun_s,
            idle_s=self._mailbox.idle_s, waits=self._waits, without_lease=self.standstill.lasts,
            lease_expirations=self.standstill.expirations,
        )  # fmt: skip

    # ---- end ----

    def _ending(self, failed: HostedTask | None = None, stopped: Future[None] | None = None) -> Steps[None]:
        """Commit all tasks except the failed one (best effort), and end."""
        yield from self._assignment.end(failed)
        self._finish(self._failed_with, stopped)
        if stopped is not None:
            stopped.set_result(None)

    def _fail(self, error: BaseException) -> None:
        """End because of ``error``. If one task has failed, the others commit first (best effort)."""
        if self.finished.done():
            return
        error = with_writer(error, self._running)
        text = describe_error(error) + self.uncaught.handle(error)
        self._log.error("stream loop failed", error=text, task=self._task_at_work())
        failed, self._current = self._current or self._hosted.at_work, None
        in_job, self._job = self._job is not None, None
        self._jobs.clear()
        if failed is None or self._guarantee.exactly_once or in_job or self._failed_with is not None:
            self._finish(self._failed_with or text)  # the first error is the cause
        else:
            self._failed_with = text
            self._commits.forget(failed)
            self._jobs.append(self._ending(failed))

    def _finish(self, error: str | None, stopped: Future[None] | None = None) -> None:
        self._commits.abandon()  # its steps keep references to stores
        closing: list[Callable[[], None]] = [self._taking.close, self._fetching.close]
        closing += [hosted.close for hosted in self._tasks.values()]
        closing += [self._globals.close, self._restoration.close, self._standbys.close, self._audits.close]
        closing += [self._calls.close, self._consumer.close, self._guarantee.close]
        close_all(closing, self._log)
        self._tasks.clear()
        self._running.clear()
        self.finished.set_result(error)
        self._queries.reject(self._ended_error())
        self._jobs.reject(self._ended_error(), but=stopped)
        self._mailbox.close()
