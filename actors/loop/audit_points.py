"""An actor's part of an audit point: intake on hold, and images of the tasks' rows right after a commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from penstock.actors.audit_messages import AuditAnswer, AuditStep, EndHold, HoldIntake, TakeImages, TaskImage
from penstock.actors.clock import Clock
from penstock.actors.loop.assignment import Assignment
from penstock.actors.loop.hosted_tasks import HostedTasks
from penstock.actors.loop.source_reader import SourceReader
from penstock.actors.status import TaskState
from penstock.actors.steps import Steps
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.actors.task_host.task_images import IMAGES, end_forgotten, image_folder, take_image
from penstock.common.log import logger

_LOOK_AT_IMAGES_EACH_S = 60.0


@dataclass
class _Hold:
    point: str
    epoch: int
    until_s: float


@dataclass
class _Wanted:
    """Images that are to be taken once their tasks are there; refused after ``until_s``."""

    step: TakeImages
    done: Future[AuditAnswer]
    until_s: float


class AuditPoints:
    """The audit points in which an actor takes part: one at a time. For the thread of its loop.

    Nothing here can harm the application. A hold ends by itself, and an error only refuses the step.
    """

    def __init__(
        self, root: Path, tasks: HostedTasks, reader: SourceReader, assignment: Assignment, clock: Clock, node_id: str
    ) -> None:
        self._root = root
        self._tasks = tasks
        self._reader = reader
        self._assignment = assignment
        self._clock = clock
        self._node_id = node_id
        self._hold: _Hold | None = None
        self._wanted: list[_Wanted] = []
        self._taking: list[Future[AuditAnswer]] = []
        self._look_s = 0.0

    def take(self, step: AuditStep, done: Future[AuditAnswer]) -> None:
        """Do ``step``; see its class."""
        self._end_hold_if_over()
        try:
            match step:
                case HoldIntake():
                    self._begin_hold(step)
                    done.set_result(self._answer(None))
                case TakeImages():
                    self._wanted.append(_Wanted(step, done, self._clock.monotonic_s() + step.within_s))
                case EndHold(point):
                    self._end_hold(point)
                    done.set_result(self._answer(None))
                case _:
                    assert_never(step)
        except _RefusedError as error:
            done.set_result(self._answer(str(error)))

    def step(self) -> list[Steps[None]]:
        """Returns the jobs that are due: the commits and images of tasks that have come as far as was asked for."""
        self._end_hold_if_over()
        self._end_forgotten_images()
        due: list[Steps[None]] = []
        for wanted in list(self._wanted):
            try:
                missing = self._missing(wanted.step)
                if missing is not None and self._clock.monotonic_s() >= wanted.until_s:
                    raise _RefusedError(missing)
            except _RefusedError as error:
                wanted.done.set_result(self._answer(str(error)))
            else:
                if missing is not None:
                    continue
                self._taking = [other for other in self._taking if not other.done()] + [wanted.done]
                due.append(self._commit_and_image(wanted))
            self._wanted.remove(wanted)
        return due

    def _end_forgotten_images(self) -> None:
        """Each minute, remove the images that no auditor needs any more, also those of actors that are gone."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_AT_IMAGES_EACH_S
            if (self._root / IMAGES).exists():  # large files take their time
                threading.Thread(target=end_forgotten, args=(self._root, time.time()), daemon=True).start()

    def close(self) -> None:
        """Refuse what is not done: the actor ends."""
        for done in [*(wanted.done for wanted in self._wanted), *self._taking]:
            if not done.done():
                done.set_result(self._answer("the actor has ended"))
        self._wanted.clear()

    # ---- hold ----

    def _begin_hold(self, step: HoldIntake) -> None:
        self._require_epoch(step.epoch)
        if self._hold is not None and self._hold.point != step.point:
            raise _RefusedError("another audit takes its point: run this one again later")
        if strange := step.partitions - self._reader.partitions:
            raise _RefusedError(f"{min(strange)} is not read by this actor")
        if self._hold is None:
            self._hold = _Hold(step.point, step.epoch, self._clock.monotonic_s() + step.for_s)
        self._reader.hold(step.partitions)

    def _end_hold(self, point: str) -> None:
        if self._hold is None or self._hold.point != point:
            raise _RefusedError("its hold has ended before: the tasks have moved, or it has lasted too long")
        self._release()

    def _end_hold_if_over(self) -> None:
        hold = self._hold
        if hold is None:
            return
        over = self._clock.monotonic_s() >= hold.until_s
        if over or hold.epoch != self._assignment.epoch:
            if over:
                logger(__name__).warning("intake continues: the auditor has not ended its hold", point=hold.point)
            self._release()

    def _release(self) -> None:
        self._hold = None
        self._reader.end_hold()

    def _require_epoch(self, epoch: int) -> None:
        if epoch != self._assignment.epoch:
            raise _RefusedError(
                f"the tasks have moved: this actor is at assignment {self._assignment.epoch}, not {epoch}"
            )

    # ---- images ----

    def _missing(self, step: TakeImages) -> str | None:
        """Returns what the tasks lack; None if nothing. Raises _RefusedError for what does not come by waiting."""
        self._require_epoch(step.epoch)
        for task in sorted(step.tasks):
            hosted = self._tasks.by_id.get(task)
            if hosted is None:
                raise _RefusedError(f"task {task} is not here")
            if hosted.state is not TaskState.RUNNING:
                return f"task {task} restores its state"
            if hosted.has_calls:
                return f"task {task} waits for the end of calls"
            self._reader.pass_over_markers([hosted])
            for partition in sorted(hosted.sources):
                at = self._reader.processed(hosted, partition)
                if at < step.reach.get(partition, 0):
                    return (
                        f"task {task} is at offset {at} of {partition}, and {step.reach[partition]} was to be reached"
                    )
                if self._reader.holds(partition) and hosted.task.queued(partition):
                    return f"task {task} has {hosted.task.queued(partition)} records of {partition} to process"
        return None

    def _commit_and_image(self, wanted: _Wanted) -> Steps[None]:
        """Commit the tasks and take their images. Records wait, so that the rows are those of that commit."""
        step, done = wanted.step, wanted.done
        try:
            tasks = [self._tasks.by_id[task] for task in sorted(step.tasks) if task in self._tasks.by_id]
            yield from self._assignment.commit(tasks)
            if (missing := self._missing(step)) is not None:
                raise _RefusedError(missing)
            images: list[TaskImage] = []
            writes: list[Callable[[], None]] = []
            for hosted in tasks:
                images.append(self._image(hosted, step.point, writes))
                yield 0.0
        except Exception as error:
            _resolve(done, self._answer(str(error)))
            if not isinstance(error, _RefusedError):
                raise  # the loop goes back to the last commit, or fails, as it does without an audit
            return
        threading.Thread(target=self._write, args=(writes, done, images), name="audit-image", daemon=True).start()

    def _image(self, hosted: HostedTask, point: str, writes: list[Callable[[], None]]) -> TaskImage:
        folder = image_folder(self._root, point, hosted.id)
        try:
            layouts, write = take_image(hosted.state_manager, folder)
        except Exception as error:  # the stores are as they were
            raise _RefusedError(f"no image of task {hosted.id}: {error}") from error
        writes.append(write)
        return TaskImage(hosted.id, str(folder), layouts, dict(hosted.committed))

    def _write(self, writes: list[Callable[[], None]], done: Future[AuditAnswer], images: list[TaskImage]) -> None:
        try:
            for write in writes:
                write()
        except OSError as error:
            _resolve(done, self._answer(f"the rows of stores in memory cannot be written: {error}"))
        else:
            _resolve(done, self._answer(None, images))

    def _answer(self, refused: str | None, images: list[TaskImage] | None = None) -> AuditAnswer:
        return AuditAnswer(refused, self._node_id, tuple(images or ()))


def _resolve(done: Future[AuditAnswer], answer: AuditAnswer) -> None:
    with suppress(InvalidStateError):  # the actor has ended meanwhile, and said so
        done.set_result(answer)


class _RefusedError(Exception):
    """A step that is not done, and the reason."""
