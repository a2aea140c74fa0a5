"""The work of a backfill that is under way: its plan and the results of its stages, in a local folder or in object
storage, so that another process can continue it.

::

    runs/<number>.json              the plan of a run, and the process that works on it, created only if absent: the
                                    newest one owns the place. A process that continues a run takes the next number
    run-<id>/stage-<n>/….parquet    rows of an attempt of some tasks
    run-<id>/stage-<n>/finished/    notes of tasks whose rows are whole, created only if absent
    run-<id>/stage-<n>/progress/    number of rows that each Spark partition has taken
    run-<id>/stage-<n>.json         the manifest of a finished stage, created only if absent
    run-<id>/hand-over.json         written before the hand-over begins

No two runs have the same id: what a worker of a run that is gone still writes is of no other run.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.common.errors import (
    ApplicationStateError,
    ObjectExistsError,
    ObjectMissingError,
    StreamsError,
)
from penstock.objects.contracts import ObjectStore
from penstock.objects.manifest_log import ManifestLog
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.planned_offsets import PlannedOffsets
from penstock.pipeline.backfill.row_files import StageFile
from penstock.pipeline.backfill.stage_files import FinishedTasks

_RUNS = "runs/"
_FORMAT = 2


class RunCheckpoints(Struct, frozen=True):
    """The place where a run hands over checkpoints, and the epoch of these."""

    url: str
    epoch: int


class RunManifest(Struct, frozen=True):
    """The plan of a run. ``program``: the hash of the topology and its topics; ``options``: what it was asked for;
    ``topic_ids``: the ids of the topics that it reads. ``checkpoints``: None if it hands over the changelogs alone.
    ``process``: the process that works on it."""

    run_id: str
    application_id: str
    program: str
    options: dict[str, str]
    offsets: PlannedOffsets
    topic_ids: dict[str, str]
    checkpoints: RunCheckpoints | None = None
    process: str = ""
    format: int = _FORMAT

    @property
    def folder(self) -> str:
        """The folder of its results."""
        return f"run-{self.run_id}"


class StageManifest(Struct, frozen=True):
    """The results of a finished stage."""

    finished: list[FinishedTasks]

    def files(self, kind: str) -> list[list[StageFile]]:
        """Returns the files with rows of ``kind``: in one list those of the parts of a task, in order."""
        found: dict[int, list[StageFile]] = {}
        for tasks in sorted(self.finished, key=lambda each: (each.tasks[0], each.part)):
            if kind in tasks.files:
                found.setdefault(tasks.tasks[0], []).append(tasks.files[kind])
        return list(found.values())


class StageWork:
    """The results of one stage."""

    def __init__(self, objects: ObjectStore, number: int, folder: str) -> None:
        """``folder``: of the run."""
        self.prefix = f"{folder}/stage-{number:03}/"
        self._objects = objects
        self._manifest = f"{folder}/stage-{number:03}.json"

    def manifest(self) -> StageManifest | None:
        """Returns the manifest of the stage; None if it is not finished."""
        try:
            return msgspec.json.decode(self._objects.read(self._manifest), type=StageManifest)
        except ObjectMissingError:
            return None

    def finished(self) -> list[FinishedTasks]:
        """Returns what tasks have finished."""
        notes = [info.name for info in self._objects.list(f"{self.prefix}finished/")]
        return [msgspec.json.decode(self._objects.read(name), type=FinishedTasks) for name in notes]

    def taken(self) -> int:
        """Returns the number of rows that tasks have taken, as of a moment ago."""
        counts = 0
        for info in self._objects.list(f"{self.prefix}progress/"):
            try:
                counts += int(self._objects.read(info.name))
            except ObjectMissingError:
                continue
        return counts

    def begin(self) -> None:
        """Forget the progress of an earlier attempt."""
        self._objects.delete([info.name for info in self._objects.list(f"{self.prefix}progress/")])

    def commit(self) -> StageManifest:
        """Write the manifest of what all tasks have finished. Raises ApplicationStateError if another process has."""
        manifest = StageManifest(self.finished())
        times = Counter((task, each.part) for each in manifest.finished for task in each.tasks)
        if twice := sorted({task for (task, _), count in times.items() if count > 1}):
            raise StreamsError(
                f"tasks {', '.join(map(str, twice))} are finished twice in {self.prefix!r} of {self._objects.url}: two "
                "versions of penstock have worked on it. Run the backfill again without --resume"
            )
        content = msgspec.json.encode(manifest)
        try:
            self._objects.create(self._manifest, content)
        except ObjectExistsError:
            if self._objects.read(self._manifest) != content:  # else the client has repeated its request
                raise ApplicationStateError(
                    f"another process works on this backfill: it has written {self._manifest!r} in "
                    f"{self._objects.url}. Let one of them finish"
                ) from None
        return manifest


@dataclass(frozen=True)
class RunOwner:
    """The process that works on a run, as its workers in Spark's executors know it."""

    location: ObjectLocation
    application_id: str
    process: str

    def refuse_if_superseded(self) -> None:
        """Raise ApplicationStateError if another run has begun since in the same place, if another process continues
        this run, or if this run has ended."""
        newest = Run.unfinished(self.location)
        if newest is None or newest.manifest.process != self.process:
            raise ApplicationStateError(
                f"another backfill of application {self.application_id!r} has begun meanwhile in "
                f"{self.location.open().url}, and this one ends: it hands nothing more over"
            )


class Run:
    """A run of a backfill, and its place."""

    def __init__(self, location: ObjectLocation, number: int, manifest: RunManifest) -> None:
        self.location = location
        self.number = number
        self.manifest = manifest
        self._objects = location.open()
        self._log = ManifestLog(self._objects, _RUNS)
        self._hand_over = f"{manifest.folder}/hand-over.json"

    @classmethod
    def begin(cls, location: ObjectLocation, manifest: RunManifest) -> Run:
        """Begin a run; the work of earlier ones is deleted. Raises ObjectStoreError if the place cannot be written."""
        objects = location.open()
        log = ManifestLog(objects, _RUNS)
        earlier = log.numbers()
        begun = _append(location, log, max(earlier, default=0) + 1, manifest)
        # Also what workers of a run have written that was deleted before.
        others = [info.name for info in objects.list() if not info.name.startswith((_RUNS, f"{manifest.folder}/"))]
        objects.delete([*others, *map(log.name, earlier)])
        return begun

    @classmethod
    def unfinished(cls, location: ObjectLocation) -> Run | None:
        """Returns the newest run, whose work is still there; None if there is none."""
        log = ManifestLog(location.open(), _RUNS)
        numbers = log.numbers()
        if not numbers:
            return None
        content = log.read(numbers[-1])
        try:
            manifest = msgspec.json.decode(content, type=RunManifest)
            if manifest.format != _FORMAT:
                raise msgspec.ValidationError(f"format {manifest.format}")
        except msgspec.DecodeError as error:
            raise StreamsError(
                f"the unfinished backfill in {location.open().url} cannot be continued: its plan is not readable by "
                f"this version of penstock ({error}). Run the backfill again without --resume"
            ) from None
        return cls(location, numbers[-1], manifest)

    def taken_over(self) -> Run:
        """Returns the run as one of this process: another one that still works on it hands nothing over."""
        return _append(self.location, self._log, self.number + 1, self.manifest)

    def stage(self, number: int) -> StageWork:
        """Returns the work of stage ``number``."""
        return StageWork(self._objects, number, self.manifest.folder)

    @property
    def owner(self) -> RunOwner:
        """The owner of the run: this process."""
        return RunOwner(self.location, self.manifest.application_id, self.manifest.process)

    def refuse_if_superseded(self) -> None:
        """Raise ApplicationStateError if another run has begun since in the same place, or another process continues
        this one."""
        self.owner.refuse_if_superseded()

    def begin_hand_over(self) -> None:
        """Note that from now on rows of this run may be in the changelogs."""
        self._objects.put(self._hand_over, b"{}")

    def hand_over_begun(self) -> bool:
        """Returns True if rows of this run may be in the changelogs."""
        return self._objects.info(self._hand_over) is not None

    def delete(self) -> None:
        """Delete the work of this run: it is handed over."""
        names = [info.name for info in self._objects.list(f"{self.manifest.folder}/")]
        # The manifests last: while one is there, the next run finds what is left to delete.
        self._objects.delete([*names, *(self._log.name(it) for it in self._log.numbers() if it <= self.number)])


def new_run_id() -> str:
    """Returns an id that no other run has."""
    return uuid.uuid4().hex


def _append(location: ObjectLocation, log: ManifestLog, number: int, manifest: RunManifest) -> Run:
    own = replace(manifest, process=uuid.uuid4().hex)
    content = msgspec.json.encode(own)
    try:
        log.append(number, content)
    except ObjectExistsError:
        if log.read(number) != content:  # else the client has repeated its request
            raise ApplicationStateError(
                f"another backfill of application {manifest.application_id!r} has begun in {location.open().url} at "
                "the same moment: let it finish"
            ) from None
    return Run(location, number, own)
