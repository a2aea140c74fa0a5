"""Takes checkpoints of the tasks of an actor, one after the other, while records are processed.

For each: another thread flushes the stores, the loop takes hard links between two batches, the other thread uploads.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from penstock.actors.checkpoints.figures import CheckpointFigures
from penstock.actors.checkpoints.storage import CheckpointStorage
from penstock.actors.checkpoints.task_state import draft, persistent
from penstock.actors.clock import Clock
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.actors.task_host.task_directory import CHECKPOINT
from penstock.checkpoints.errors import CheckpointSupersededError
from penstock.checkpoints.manifest import CheckpointDraft, CheckpointManifest, Stores
from penstock.checkpoints.writer import CheckpointWriter
from penstock.common.errors import StreamsError
from penstock.common.ids import TaskId
from penstock.common.log import logger
from penstock.state.builders import is_restorable


@dataclass
class _Kept:
    """Notes about a task, kept as long as the actor has it. ``epoch``: that of the assignment under which the actor
    had it first, or above that of another actor's checkpoint. ``saved``: the stores of the last checkpoint;
    ``saved_commits``: the commits that it has."""

    due_s: float
    epoch: int
    figures: CheckpointFigures
    writer: CheckpointWriter | None = None
    saved: Stores | None = None
    saved_by: HostedTask | None = None
    saved_commits: int = 0
    superseded_at_commit: int | None = None
    """The commits of the task when a checkpoint of a newer epoch was found. A later one shows that this actor has the
    task after all: then the group has taken it from the other, whose coordinator counts epochs for itself."""


@dataclass
class _Taking:
    """The checkpoint under way. ``upload``: None until the hard links are there."""

    hosted: HostedTask
    kept: _Kept
    begun_s: float
    flush: Future[None]
    upload: Future[CheckpointManifest] | None = None
    commits: int = 0


class CheckpointTaking:
    """The checkpoints that one actor takes; none without a ``storage``.

    All methods are for the thread of the stream loop. Errors of the storage or of files are logged and counted, and
    the next attempt is made when the interval has passed; they never end the actor.
    """

    def __init__(self, storage: CheckpointStorage | None, interval_s: float, clock: Clock) -> None:
        self._storage = storage
        self._interval_s = interval_s
        self._clock = clock
        self._log = logger(__name__)
        self._kept: dict[TaskId, _Kept] = {}
        self._taking: _Taking | None = None
        self._next_s = 0.0
        self._count = 0
        self._fails = False
        self._thread: ThreadPoolExecutor | None = None

    def step(self, running: Sequence[HostedTask], epoch: int) -> None:
        """Take a step of the checkpoint under way, or begin the next one that is due. Not while a write of a commit is
        half done. ``epoch``: that of the actor's assignment."""
        if self._storage is None:
            return
        if self._taking is not None:
            self._continue(self._taking)
        elif (now_s := self._clock.monotonic_s()) >= self._next_s:
            self._begin_next(running, epoch, now_s)

    def _begin_next(self, running: Sequence[HostedTask], epoch: int, now_s: float) -> None:
        self._next_s = now_s + min(1.0, self._interval_s)
        due = []
        for hosted in running:
            kept = self._kept.get(hosted.id)
            if kept is None:
                kept = self._kept[hosted.id] = _Kept(now_s + self._interval_s, epoch, CheckpointFigures())
            if now_s >= kept.due_s and self._is_changed(hosted, kept, now_s):
                due.append((kept.due_s, hosted.id, hosted, kept))
        if due:
            _, _, hosted, kept = min(due, key=lambda each: each[:2])
            self._thread = self._thread or ThreadPoolExecutor(1, "penstock-checkpoints")
            flush = self._thread.submit(hosted.state_manager.flush_to_disk)
            self._taking = _Taking(hosted, kept, now_s, flush)

    def _is_changed(self, hosted: HostedTask, kept: _Kept, now_s: float) -> bool:
        """Returns True if there is something new to save. If the task has committed nothing since its start, a commit
        is requested: only after one are its rows known to be those of the committed offsets."""
        if not persistent(hosted):
            kept.due_s = now_s + self._interval_s
            return False
        if not hosted.commits:
            if kept.saved_by is not hosted and kept.saved is None:
                hosted.touched = True
            return False
        if kept.superseded_at_commit is not None and hosted.commits <= kept.superseded_at_commit:
            return False
        if kept.saved_by is not hosted or kept.saved is None:
            return True
        if hosted.commits == kept.saved_commits:
            return False
        if not all(map(is_restorable, persistent(hosted))):
            return True
        changelog_offset = hosted.state_manager.changelog_offset
        return any(changelog_offset(name) != store.changelog_offset for name, store in kept.saved.items())

    def _continue(self, taking: _Taking) -> None:
        if taking.upload is None:
            if taking.flush.done():
                self._take_links(taking)
        elif taking.upload.done():
            self._uploaded(taking, taking.upload)

    def _take_links(self, taking: _Taking) -> None:
        hosted, kept = taking.hosted, taking.kept
        self._count += 1
        folder = hosted.directory.path / f"{CHECKPOINT}{self._count}"
        try:
            taking.flush.result()
            begun_s = self._clock.monotonic_s()
            in_folder = hosted.state_manager.checkpoint(folder)
            kept.figures.paused(self._clock.monotonic_s() - begun_s)
        except Exception as error:  # whatever it is, the stream continues: the stores are as they were
            self._failed(taking, error)
            shutil.rmtree(folder, ignore_errors=True)
            return
        taking.commits = hosted.commits
        assert self._thread is not None
        taking.upload = self._thread.submit(self._save, hosted.id, kept, folder, draft(hosted, in_folder))

    def _save(self, task: TaskId, kept: _Kept, folder: Path, found: CheckpointDraft) -> CheckpointManifest:
        """Upload a checkpoint; called in another thread."""
        assert self._storage is not None
        try:
            repository = self._storage.repository()
            if kept.superseded_at_commit is not None:
                newest = next(repository.newest_first(str(task)), None)
                kept.epoch = max(kept.epoch, 0 if newest is None else newest.epoch + 1)
            if kept.writer is None:
                kept.writer = repository.writer(str(task), kept.epoch)
            return kept.writer.save(folder, found)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _uploaded(self, taking: _Taking, upload: Future[CheckpointManifest]) -> None:
        kept = taking.kept
        error = upload.exception()
        if error is not None:
            self._failed(taking, error)
            return
        self._taking = None
        manifest, took_s = upload.result(), self._clock.monotonic_s() - taking.begun_s
        kept.saved, kept.saved_by, kept.saved_commits = manifest.stores, taking.hosted, taking.commits
        kept.superseded_at_commit = None
        kept.due_s = taking.begun_s + self._interval_s
        kept.figures.saved(manifest, took_s)
        if self._fails:
            self._fails = False
            self._log.info("checkpoints are stored again", task=str(taking.hosted.id))

    def _failed(self, taking: _Taking, error: BaseException) -> None:
        """Note that a checkpoint was not stored. Log it if the one before was."""
        self._taking = None
        kept, task = taking.kept, taking.hosted.id
        kept.due_s = self._clock.monotonic_s() + self._interval_s
        if isinstance(error, CheckpointSupersededError):
            kept.writer, kept.superseded_at_commit = None, taking.hosted.commits
            self._log.info("checkpoint not taken: another actor has the task", task=str(task), error=str(error))
            return
        kept.figures.failed(error)
        if not isinstance(error, StreamsError | OSError):
            self._log.error("taking a checkpoint has failed", task=str(task), exc_info=error)
        elif not self._fails:
            self._log.warning(
                "checkpoint not stored, retrying when the interval has passed: until then a restore reads more of "
                "the changelogs",
                task=str(task), error=str(error), interval_s=self._interval_s,
            )  # fmt: skip
        self._fails = True

    # ---- ends ----

    def release(self, hosted: HostedTask) -> None:
        """Use the stores of ``hosted`` no more: they are about to be closed, or restored. An upload continues, since
        its files stay as they are."""
        taking = self._taking
        if taking is not None and taking.hosted is hosted and taking.upload is None:
            # It takes a fraction of a second, and RocksDB must not be closed meanwhile.
            taking.flush.exception()
            self._taking = None

    def forget(self, hosted: HostedTask) -> None:
        """Forget a task that leaves the actor."""
        self.release(hosted)
        self._kept.pop(hosted.id, None)

    def figures(self, task: TaskId) -> CheckpointFigures | None:
        """Returns the figures of a task's checkpoints; None if it has had none here yet."""
        kept = self._kept.get(task)
        return None if kept is None else kept.figures

    def close(self) -> None:
        """Use no stores any more. An upload under way may still end."""
        if self._taking is not None:
            self.release(self._taking.hosted)
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
