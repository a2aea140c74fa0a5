"""Downloads checkpoints for tasks and standbys whose local stores lack much, before they are restored."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from structlog.stdlib import BoundLogger

from penstock.actors.checkpoints.storage import CheckpointStorage
from penstock.actors.checkpoints.task_state import expected_state, is_replaceable, persistent
from penstock.actors.checkpoints.worth import WORTH_A_DOWNLOAD, LocalChangelog, offsets_saved
from penstock.actors.clock import Clock
from penstock.actors.task_host.stored_task import StoredTask
from penstock.actors.task_host.task_directory import FETCHED
from penstock.checkpoints.fetching import Fetched, fetch_newest
from penstock.checkpoints.fitness import ExpectedState
from penstock.checkpoints.manifest import CheckpointManifest
from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.errors import StreamsError
from penstock.common.ids import TaskId
from penstock.common.log import logger
from penstock.state.builders import AnyStoreBuilder, is_restorable
from penstock.state.disk.task_stores import open_task_stores

_AT_ONCE = 2
"""Number of checkpoints that an actor downloads at a time."""
_STALLED_S = 120.0
"""Seconds without another byte after which a download is given up."""
_LOOK_EACH_S = 5.0


class FetchedStores(NamedTuple):
    """The stores of a checkpoint, in ``folder``."""

    folder: Path
    manifest: CheckpointManifest


@dataclass
class _Fetch:
    """One search for a checkpoint. All but ``answer`` is read by another thread and does not change, except
    ``given_up``."""

    task: TaskId
    folder: Path
    expected: ExpectedState
    builders: Sequence[AnyStoreBuilder]
    local: Mapping[str, LocalChangelog]
    now_ms: int
    given_up: threading.Event = field(default_factory=threading.Event)
    answer: Future[FetchedStores | None] = field(default_factory=Future)
    seen_bytes: int = -1
    seen_s: float = 0.0
    look_s: float = 0.0
    has_stalled: bool = False

    @property
    def missing(self) -> int:
        return sum(log.missing for log in self.local.values())


class CheckpointFetching:
    """The fetches of one actor. Without a ``storage`` there is none. A task is looked for once, until it is forgotten.

    All methods are for the thread of the stream loop. The storage is asked in other threads; whatever it answers, the
    task is restored in the end.
    """

    def __init__(self, storage: CheckpointStorage | None, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._fetches: dict[TaskId, _Fetch] = {}
        self._looked: set[TaskId] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._count = 0
        self._log = logger(__name__)
        self.fetched_bytes: dict[TaskId, int] = {}
        """The bytes of the checkpoint with which each task has begun here."""

    @property
    def enabled(self) -> bool:
        """True if there are checkpoints."""
        return self._storage is not None

    def begin(self, task: StoredTask, local: Mapping[str, LocalChangelog]) -> bool:
        """Look for a checkpoint, unless ``task`` lacks little. Returns True if the task must wait: :meth:`ended` names
        it when it need not wait any longer."""
        if task.id in self._fetches:
            return True
        if self._storage is None or task.id in self._looked or not is_replaceable(task):
            return False
        builders = persistent(task)
        wanted = {builder.name: local[builder.name] for builder in builders if builder.name in local}
        alone = task.directory.is_new and not all(map(is_restorable, builders))
        if not builders or (sum(log.missing for log in wanted.values()) < WORTH_A_DOWNLOAD and not alone):
            return False
        self._count += 1
        folder = task.directory.path / f"{FETCHED}{self._count}"
        fetch = _Fetch(task.id, folder, expected_state(task), builders, wanted, self._clock.wall_ms())
        fetch.seen_s = fetch.look_s = self._clock.monotonic_s()
        self._threads = self._threads or ThreadPoolExecutor(_AT_ONCE, "penstock-fetch")
        self._fetches[task.id] = fetch
        fetch.answer = self._threads.submit(_fetched, fetch, self._storage, self._log)
        return True

    def missing(self, task: TaskId) -> int:
        """Returns the number of changelog offsets that a waiting task lacks."""
        fetch = self._fetches.get(task)
        return fetch.missing if fetch is not None else 0

    def ended(self) -> list[TaskId]:
        """Returns the tasks that need not wait any longer: :meth:`take` has the answer."""
        return [task for task, fetch in self._fetches.items() if fetch.answer.done() or self._has_stalled(fetch)]

    def _has_stalled(self, fetch: _Fetch) -> bool:
        now_s = self._clock.monotonic_s()
        if now_s - fetch.look_s >= _LOOK_EACH_S:
            fetch.look_s, size = now_s, _size(fetch.folder.parent, fetch.folder.name)
            if size != fetch.seen_bytes:
                fetch.seen_bytes, fetch.seen_s = size, now_s
            fetch.has_stalled = now_s - fetch.seen_s >= _STALLED_S
        return fetch.has_stalled

    def take(self, task: TaskId) -> FetchedStores | None:
        """Returns the checkpoint of a task that :meth:`ended` has named; None if it is restored without one.
        :meth:`looked` must follow."""
        fetch = self._fetches.pop(task)
        if not fetch.answer.done():
            fetch.given_up.set()
            self._log.warning(
                "object storage has sent nothing of a checkpoint for long: restoring from the changelogs",
                task=str(task), seconds=_STALLED_S,
            )  # fmt: skip
            return None
        return fetch.answer.result()

    def forget(self, task: TaskId) -> None:
        """Give up the fetch of a task that leaves, or begins again."""
        self._looked.discard(task)
        self.fetched_bytes.pop(task, None)
        fetch = self._fetches.pop(task, None)
        if fetch is not None:
            fetch.given_up.set()

    def looked(self, task: TaskId, found: FetchedStores | None) -> None:
        """Note that the task begins with these stores, or without a checkpoint: it is not looked for again."""
        self._looked.add(task)
        if found is not None:
            self.fetched_bytes[task] = found.manifest.size

    def close(self) -> None:
        """Give up all fetches."""
        for task in list(self._fetches):
            self.forget(task)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _size(directory: Path, name: str) -> int:
    """Returns the bytes of what is in ``directory`` under a name that begins with ``name``."""
    total = 0
    with suppress(FileNotFoundError):  # the last file may just have got its name
        for folder in directory.glob(f"{name}*"):
            total += sum(file.stat().st_size for file in folder.rglob("*"))
    return total


def _fetched(fetch: _Fetch, storage: CheckpointStorage, log: BoundLogger) -> FetchedStores | None:
    """Returns the newest checkpoint that fits, saves enough, and is whole, with its stores in the folder of ``fetch``.
    Never raises."""
    found = None
    try:
        found = _newest(fetch, storage.repository(), log)
    except (StreamsError, OSError) as error:
        log.warning(
            "no checkpoint can be downloaded: restoring from the changelogs", task=str(fetch.task), error=str(error)
        )
    except Exception as error:  # nothing must keep the task from being restored
        log.error("a download of a checkpoint has failed", task=str(fetch.task), exc_info=error)
    if found is None or fetch.given_up.is_set():
        shutil.rmtree(fetch.folder, ignore_errors=True)
        return None
    return found


def _newest(fetch: _Fetch, repository: CheckpointRepository, log: BoundLogger) -> FetchedStores | None:
    irreplaceable = {builder.name for builder in fetch.builders if not is_restorable(builder)}

    def is_worth(found: Fetched) -> bool:
        manifest, verdict = found
        if fetch.given_up.is_set():
            return False
        where = {"task": str(fetch.task), "checkpoint": str(manifest.name)}
        saved = offsets_saved(manifest, verdict, fetch.local, fetch.now_ms)
        if saved < WORTH_A_DOWNLOAD and not (irreplaceable & manifest.stores.keys()) - verdict.wipe.keys():
            log.info("a checkpoint would save little", offsets_saved=saved, offsets_missing=fetch.missing, **where)
            return False
        for notice in verdict.notices:
            log.warning("a checkpoint has records of a topic that was deleted", what=notice, **where)
        log.info("downloading a checkpoint", bytes=manifest.size, offsets_saved=saved, **where)
        return True

    def prepare(found: Fetched) -> None:
        _prepare(fetch, found)

    found = fetch_newest(repository, str(fetch.task), fetch.expected, fetch.folder, is_worth, prepare)
    return None if found is None else FetchedStores(fetch.folder, found.manifest)


def _prepare(fetch: _Fetch, found: Fetched) -> None:
    """Open the stores once, which shows that they can be opened, and wipe those that do not fit: after the folder has
    taken the place of the local stores, a crash must not leave rows that do not belong there. The manifest has the
    changelog offsets: a backfill writes the changelogs after it has made the files."""
    stores = open_task_stores(fetch.folder, fetch.builders)
    try:
        for name in found.verdict.wipe:
            stores.wipe(name)
        for name in {builder.name for builder in fetch.builders} - found.verdict.wipe.keys():
            store = found.manifest.stores.get(name)
            offset = None if store is None else store.changelog_offset
            if offset is not None and offset != stores.changelog_offset(name):
                stores.write(stores.new_batch(), {name: offset})
    finally:
        stores.close()
