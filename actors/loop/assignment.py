"""Carries out an assignment of an actor in steps: commits tasks that leave, and begins tasks that arrive."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeVar

from structlog.stdlib import BoundLogger

from penstock.actors.commits.committing import Commits, delivery
from penstock.actors.commits.guarantee import Guarantee
from penstock.actors.loop.hosted_tasks import HostedTasks
from penstock.actors.standbys.standbys import Standbys
from penstock.actors.steps import SOON_S, Steps
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.common.errors import ProductionError
from penstock.common.ids import Sources
from penstock.kafka.contracts import TransactionAbortedError, UndeliveredError

T = TypeVar("T")
_PARTING_SLICE_S, _PARTING_SLICES = 0.005, 200
"""Time for the last records of a task that has failed."""


class Assignment:
    """The assignment of an actor; its ``epoch`` is 0 before the first. Records wait during each of its jobs."""

    def __init__(
        self, tasks: HostedTasks, standbys: Standbys, commits: Commits, guarantee: Guarantee, log: BoundLogger
    ) -> None:
        self.epoch = 0
        self._unopened: Sources = {}
        self._tasks = tasks
        self._standbys = standbys
        self._commits = commits
        self._guarantee = guarantee
        self._log = log

    def take(self, epoch: int, sources: Sources, standbys: Sources, done: Future[None]) -> Steps[None]:
        """Have these tasks and standbys and no others. ``done`` gets None when the others are committed and closed; an
        epoch below the current one changes nothing."""
        if epoch < self.epoch:
            done.set_result(None)
            return (yield from self._begin())  # this late order ended a wait of _begin; no other continues it
        tasks = self._tasks.by_id
        released = [it for it in tasks.values() if sources.get(it.id) != it.reads]
        try:
            yield from self.commit(released)
        except UndeliveredError as error:
            yield from self._abort(error)
        for hosted in released:
            self._tasks.drop(tasks.get(hosted.id, hosted))
            yield 0.0
        yield from self._guarantee.reopening()  # the next owner of a released task must find no commit in doubt
        self._standbys.close_others(standbys, sources)
        self.epoch = epoch
        self._unopened = {task_id: sources[task_id] for task_id in sorted(sources.keys() - tasks.keys())}
        self._tasks.assigned(epoch)
        done.set_result(None)
        if self._unopened:
            try:
                # Records of a dropped task may be on their way to a changelog that is restored now.
                yield from self._or_undelivered(delivery(self._guarantee))
            except UndeliveredError as error:
                yield from self._abort(error)
                yield from self._guarantee.reopening()
        yield from self._begin()
        self._standbys.open(standbys)

    def suspend(self, epoch: int, done: Future[None]) -> Steps[None]:
        """Let no task process records until an assignment above ``epoch`` is taken; ``done`` gets None when all is
        committed."""
        if epoch > self.epoch:
            self._tasks.suspend(epoch)
            try:
                yield from self.commit(list(self._tasks.running))
            except UndeliveredError as error:
                yield from self._abort(error)  # the next assignment begins them again
            done.set_result(None)
        else:
            done.set_result(None)
            yield from self._begin()

    def commit(self, tasks: Sequence[HostedTask]) -> Steps[None]:
        """Commit ``tasks``; those whose commit is refused are dropped. Raises UndeliveredError if all must go back."""
        answer = yield from self._or_undelivered(self._commits.run(tasks, self._tasks.running))
        if not answer.accepted:
            yield from self.drop_refused(tasks, answer.reason)

    def end(self, failed: HostedTask | None) -> Steps[None]:
        """Commit all tasks except the one that has failed, if any, whose dead letter is delivered. Best effort."""
        try:
            yield from self.commit([hosted for hosted in self._tasks.running if hosted is not failed])
            for _ in range(_PARTING_SLICES if failed is not None and not self._guarantee.exactly_once else 0):
                if self._guarantee.producer.flush(_PARTING_SLICE_S):
                    break
                yield SOON_S
        except (UndeliveredError, ProductionError) as error:
            happened = error.happened if isinstance(error, UndeliveredError) else "records not delivered"
            self._log.warning(f"{happened} at the end", reason=str(error))

    def _or_undelivered(self, steps: Steps[T]) -> Steps[T]:
        """Take ``steps``. If one raises an error for which all tasks go back, raises the UndeliveredError for it."""
        try:
            return (yield from steps)
        except Exception as error:
            if (back := self._tasks.going_back(error)) is None:
                raise
            raise back from error

    def drop_refused(self, tasks: Sequence[HostedTask], reason: str) -> Steps[None]:
        """Drop tasks whose commit was refused: another actor has them, or will have."""
        tasks = list(self._tasks.by_id.values() if self._guarantee.exactly_once else tasks)
        self._log.warning("commit refused, tasks dropped", reason=reason, tasks=[str(h.id) for h in tasks])
        for hosted in tasks:
            self._tasks.drop(hosted)
        if self._guarantee.exactly_once:
            yield from self._abort(TransactionAbortedError(reason))

    def go_back(self, error: UndeliveredError) -> Steps[None]:
        """Continue from the last commit."""
        yield from self._abort(error)
        yield from self._begin()

    def take_fetched(self) -> Steps[None]:
        """Begin the tasks that need not wait for a checkpoint any longer."""
        yield from self._tasks.take_fetched()
        yield from self._begin()

    def _abort(self, error: UndeliveredError) -> Steps[None]:
        self._commits.aborted()
        yield from self._tasks.abort(error)

    def _begin(self) -> Steps[None]:
        """Open the tasks of this assignment that are not open yet, and begin those that are open.

        An order that arrives ends a wait for stores or a broker, even if it is late and changes nothing. So every order
        calls this method, unless another assignment follows it.
        """
        yield from self._tasks.open(self._unopened)
        by_id = self._tasks.by_id
        self._unopened = {task_id: reads for task_id, reads in self._unopened.items() if task_id not in by_id}
        answer = yield from self._tasks.begin()
        if not answer.accepted:
            yield from self.drop_refused(list(self._tasks.by_id.values()), answer.reason)
