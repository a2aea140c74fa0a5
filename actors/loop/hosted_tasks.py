"""Opens, restores, starts and drops the tasks of an actor, and takes them back to the last commit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from structlog.stdlib import BoundLogger

from penstock.actors.checkpoints.taking import CheckpointTaking
from penstock.actors.clock import Clock
from penstock.actors.commit_messages import CommitAnswer
from penstock.actors.commits.guarantee import Guarantee, RefusedError
from penstock.actors.loop.log_summary import LogSummary
from penstock.actors.loop.source_reader import SourceReader
from penstock.actors.loop.task_opening import TaskOpening
from penstock.actors.loop.thread_meters import ThreadMeters
from penstock.actors.restore.global_stores import GlobalStores
from penstock.actors.restore.restoration import Restoration
from penstock.actors.standbys.standbys import Standbys
from penstock.actors.status import TaskState
from penstock.actors.steps import Steps, retry_while_unavailable
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.actors.task_host.task_collector import undelivered
from penstock.common.errors import ProductionError, RetriableError
from penstock.common.ids import Sources, TaskId
from penstock.kafka.contracts import TransactionAbortedError, UndeliveredError


class HostedTasks:
    """``by_id`` has all tasks of the actor, ``running`` those that are restored and may process records."""

    def __init__(
        self,
        opening: TaskOpening,
        restoration: Restoration,
        standbys: Standbys,
        global_stores: GlobalStores,
        reader: SourceReader,
        guarantee: Guarantee,
        taking: CheckpointTaking,
        is_superseded: Callable[[], bool],
        clock: Clock,
        log: BoundLogger,
    ) -> None:
        """``is_superseded``: True if another order (an assignment, a suspension, a stop) waits to be carried out."""
        self.by_id: dict[TaskId, HostedTask] = {}
        self.running: list[HostedTask] = []
        self.at_work: HostedTask | None = None
        """The task whose processors are being initialised, or whose calls end in a pause; None while there is none."""
        self._opening = opening
        self._restoration = restoration
        self._standbys = standbys
        self._globals = global_stores
        self._reader = reader
        self._guarantee = guarantee
        self._taking = taking
        self._is_superseded = is_superseded
        self._clock = clock
        self._log = log
        summary = LogSummary(opening.config.log_summary_interval_ms, clock.monotonic_s())
        self.meters = ThreadMeters(clock.wall_ms(), summary)
        self.aborted = 0
        """Number of transactions that were aborted."""
        self.paused = False
        """True if no task may process records or punctuate. They are opened, restored and committed nevertheless."""
        self._suspended = False
        self._suspended_under = 0  # only an assignment above this epoch ends it

    @property
    def may_process(self) -> bool:
        """True if there is a task that may process records."""
        return bool(self.running) and not self.paused and not self._suspended

    def suspend(self, epoch: int) -> None:
        """Let no task process anything until an assignment above ``epoch`` arrives. The group rebalances, and the actor
        that gets their partitions continues from the last commit. Unlike a pause, this is not an order of a user."""
        self._suspended, self._suspended_under = True, max(epoch, self._suspended_under)

    def assigned(self, epoch: int) -> None:
        """Note the assignment of this epoch: tasks that were suspended under an earlier epoch may continue."""
        self._suspended = self._suspended and epoch <= self._suspended_under

    def pause(self, paused: bool) -> None:
        """Stop processing if ``paused``, else continue."""
        self.paused = paused

    def let_calls_end(self) -> bool:
        """Let calls of running tasks end, which take no records. Returns True if some have."""
        busy = False
        for hosted in self.running:
            self.at_work = hosted
            busy = hosted.step_calls(self._clock.wall_ms(), self._clock.monotonic_s) > 0 or busy
        self.at_work = None
        return busy

    @property
    def directories(self) -> set[Path]:
        """The directories of these tasks, and of the standbys."""
        return {it.directory.path for it in (*self.by_id.values(), *self._standbys.by_id.values())}

    def open(self, sources: Sources) -> Steps[None]:
        """Open the tasks of ``sources``; :meth:`begin` must follow. Opens none if the actor stops before it could read
        global stores."""
        if self._globals.given_up:
            return
        opened = yield from self._opening.open(sources, self.by_id, self._is_superseded)
        self.meters.tasks_created += len(opened)

    def abort(self, error: UndeliveredError) -> Steps[None]:
        """Take all tasks back to the last commit. Their changes since then are forgotten; committed rows remain in
        their stores. If Kafka has committed more than the stores have, it is in the changelogs. :meth:`begin` must
        follow. If the coordinator has given the tasks to other actors, all are dropped."""
        self.at_work = None
        while True:
            tasks = list(map(str, self.by_id))
            self._log.warning(f"{error.happened}, going back to the last commit", reason=str(error), tasks=tasks)
            self.aborted += isinstance(error, TransactionAbortedError)
            try:
                yield from self._guarantee.go_back(error)
            except UndeliveredError as again:
                error = again
            except RefusedError as refused:
                self._log.warning("commit refused, tasks dropped", reason=str(refused), tasks=tasks)
                for hosted in list(self.by_id.values()):
                    self.drop(hosted)
                return
            else:
                return (yield from self._renew())

    def _renew(self) -> Steps[None]:
        self._reader.assign([])
        self.running.clear()
        for hosted in list(self.by_id.values()):
            self._restoration.forget(hosted)
            self._globals.forget(hosted)
            self._taking.release(hosted)
            renewing = partial(self._opening.renew, hosted)
            renewed = yield from retry_while_unavailable(renewing, self._clock)
            assert renewed is not None  # no order supersedes it
            self.by_id[hosted.id] = renewed

    def going_back(self, error: BaseException) -> UndeliveredError | None:
        """Returns the error for which all tasks go back to the last commit; None if the loop fails by ``error``."""
        if isinstance(error, ProductionError) and error.late:
            refused = self._guarantee.producer.take_refused()
            return self._opening.refused.going_back(error, refused, self.running)
        return undelivered(error) if isinstance(error, (UndeliveredError, RetriableError)) else None

    def begin(self) -> Steps[CommitAnswer]:
        """Begin the tasks that are open and have done nothing yet: find their positions, restore what their stores
        lack, and start those that lack nothing. Returns the coordinator's answer; after a refusal they must be dropped.

        Waits for a broker without limit. A new order ends the wait; it, or an assignment after it, begins the remaining
        tasks.
        """
        while True:
            try:
                return (yield from self._begin())
            except (UndeliveredError, RetriableError) as error:  # a processor's init has sent a record
                yield from self.abort(undelivered(error))

    def _begin(self) -> Steps[CommitAnswer]:
        opened = [hosted for hosted in self.by_id.values() if hosted.state is TaskState.CREATED]
        if not opened:
            return CommitAnswer(True)
        answer = yield from self._find_group_metadata()
        if answer is None or not answer.accepted:
            return answer or CommitAnswer(True)  # superseded: the waiting order begins them
        if not (yield from self._opening.find_starts(opened, self._is_superseded)):
            return answer
        for hosted in opened:
            beginning = partial(self._restoration.begin, hosted)
            restores = yield from retry_while_unavailable(beginning, self._clock, self._is_superseded)
            if restores is None:
                return answer
            hosted.become(TaskState.RESTORING)
            if not restores:
                self.start(hosted)
            yield 0.0
        return answer

    def _find_group_metadata(self) -> Steps[CommitAnswer | None]:
        finding = self._guarantee.find_group_metadata()
        while not self._is_superseded():
            try:
                yield next(finding)
            except StopIteration as found:
                answer: CommitAnswer = found.value
                return answer
        return None

    def start(self, hosted: HostedTask) -> None:
        """Let ``hosted``, which lacks nothing, process records, unless it waits for global stores."""
        if not self._globals.admits(hosted):
            return
        self.at_work = hosted
        hosted.run(self._clock.wall_ms())
        self.at_work = None
        self.running.append(hosted)
        self._reader.assign(self.running)

    def drop(self, hosted: HostedTask) -> None:
        """Close ``hosted``; its uncommitted changes are lost. Does nothing if it is dropped already."""
        if self.by_id.pop(hosted.id, None) is None:
            return
        self._restoration.forget(hosted)
        self._globals.forget(hosted)
        if hosted in self.running:
            self.running.remove(hosted)
            self._reader.assign(self.running)
        self.meters.closed(hosted.meters, hosted.counted())
        self._taking.forget(hosted)
        hosted.close()

    @property
    def has_fetched(self) -> bool:
        """True if tasks need not wait for a checkpoint any longer: :meth:`take_fetched`."""
        return any(task in self.by_id for task in self._restoration.fetching.ended())

    def take_fetched(self) -> Steps[None]:
        """Make the tasks again that need not wait for a checkpoint any longer: over the stores of the checkpoint, if
        there is one. :meth:`begin` must follow."""
        fetching = self._restoration.fetching
        for task_id in [each for each in fetching.ended() if each in self.by_id]:
            hosted, found = self.by_id.pop(task_id), fetching.take(task_id)
            self._restoration.forget(hosted)
            if found is None:
                making = partial(self._opening.renew, hosted)
            else:
                making = partial(self._opening.open_fetched, hosted, found)
            made = yield from retry_while_unavailable(making, self._clock)
            assert made is not None  # no order supersedes it
            self.by_id[task_id] = made
            fetching.looked(task_id, found)
            yield 0.0

    def restore(self) -> tuple[bool, list[Steps[None]]]:
        """Restore, and follow global topics and the changelogs of standbys, for about 2 ms. Returns True if there were
        records, and the jobs to do before it continues: read a log from its beginning, or report partitioners."""
        if self._restoration.active:
            busy, ready = self._restoration.step(alone=not self.running)
        else:  # tasks wait for the end of a restore, but not for standbys
            busy, ready = self._standbys.step(), []
        followed, admitted = self._globals.step()
        for hosted in [*ready, *admitted]:
            self.start(hosted)
        stale = [it.begin_again for it in (self._restoration, self._globals) if it.overtaken]
        # If an order supersedes one, it is still overtaken, and the next round returns it again.
        jobs = [self._begin_again(begin_again) for begin_again in stale]
        if suspects := [hosted for hosted in self.running if hosted.meters.partitioners.suspects]:
            jobs.append(self._opening.report_partitioners(suspects, self._is_superseded))
        return busy or followed, jobs

    def _begin_again(self, begin_again: Callable[[], None]) -> Steps[None]:
        yield from retry_while_unavailable(begin_again, self._clock, self._is_superseded)
