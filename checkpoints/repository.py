"""The checkpoints of one application in object storage."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from penstock.checkpoints.deletion import DeletionPlan, plan_deletion
from penstock.checkpoints.errors import CheckpointDamagedError, CheckpointFormatError
from penstock.checkpoints.hand_overs import HAND_OVERS, HandOver, decode_hand_over, number_of, readable_hand_overs
from penstock.checkpoints.listing import ListedFile, ListedManifest, Listing
from penstock.checkpoints.manifest import (
    FILES,
    HAND_OVER_FILES,
    TASKS,
    CheckpointManifest,
    FileInCheckpoint,
    ManifestName,
    decode,
    parse_name,
    prefix_of,
)
from penstock.checkpoints.transfers import for_all
from penstock.checkpoints.writer import CheckpointWriter
from penstock.common.errors import ObjectMissingError, ObjectStoreError
from penstock.common.log import logger
from penstock.objects.contracts import ObjectStore
from penstock.objects.digests import digest_of_file
from penstock.objects.prefix import ObjectsBelow

_CLOCK = "clock"
"""An object that is written to know the time of the storage."""

_Needed = tuple[Mapping[str, int] | None, frozenset[str]]


class CheckpointRepository:
    """The checkpoints of ``application_id`` below the URL of ``objects``. For several threads at once."""

    def __init__(self, objects: ObjectStore, application_id: str) -> None:
        self._objects = ObjectsBelow(objects, f"{application_id}/")
        self._application_id = application_id
        self._needed: dict[str, _Needed] = {}

    def writer(self, task: str, epoch: int) -> CheckpointWriter:
        """Returns a writer of ``task``. Every later holder of the task must have a greater epoch."""
        return CheckpointWriter(self._objects, self._application_id, task, epoch)

    def newest_first(self, task: str) -> Iterator[CheckpointManifest]:
        """Yields the checkpoints of ``task``, the newest first, each read when it is asked for. The parts of hand-overs
        are among them.

        Passes over manifests that are damaged, deleted meanwhile, or of a newer penstock; the log names them. The files
        of a checkpoint may still be missing or damaged: :meth:`fetch` finds that.
        """
        handed_over = [part for found in self.hand_overs() if (part := found.checkpoint(task)) is not None]
        names = {name for info in self._objects.list(prefix_of(task)) if (name := parse_name(info.name))}
        by_name = {part.name: part for part in handed_over}
        for name in sorted(names | by_name.keys(), reverse=True):
            manifest = by_name.get(name) or self._read(name)
            if manifest is not None:
                yield manifest

    def hand_overs(self) -> list[HandOver]:
        """Returns all hand-overs that can be read, in their order."""
        return list(readable_hand_overs(self._objects, self._application_id))

    def newest_hand_over(self) -> HandOver | None:
        """Returns the last hand-over; None without one."""
        found = self.hand_overs()
        return found[-1] if found else None

    def _read(self, name: ManifestName) -> CheckpointManifest | None:
        with suppress(ObjectMissingError), self._damage_is_logged():
            return decode(self._objects.read(str(name)), name, self._application_id)
        return None

    @contextmanager
    def _damage_is_logged(self) -> Iterator[None]:
        try:
            yield
        except (CheckpointDamagedError, CheckpointFormatError) as error:
            logger(__name__).warning("a checkpoint cannot be used", error=str(error))

    def fetch(self, manifest: CheckpointManifest, folder: Path) -> None:
        """Download all files of a checkpoint to ``folder``, which must not exist: it appears whole or not at all.

        Raises CheckpointDamagedError if a file is missing or is not what was uploaded, ObjectStoreError if the storage
        does not answer, OSError if the folder cannot be written.
        """
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir(parents=True)
            for name in manifest.files:
                if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                    raise CheckpointDamagedError(f"checkpoint {manifest.name} names a file outside its folder: {name}")
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
            for_all(lambda named: self._download(manifest, named[1], partial / named[0]), manifest.files.items())
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def listing(self) -> Listing:
        """Returns all that a deletion must know. Damaged manifests are listed without files."""
        self._objects.put(_CLOCK, b"")
        now = self._objects.info(_CLOCK)
        if now is None:
            raise ObjectStoreError(f"{self._objects.url} does not have the object {_CLOCK}, which was just written")
        files = [
            ListedFile(info.name, info.size, info.modified_ms)
            for prefix in (FILES, HAND_OVER_FILES)
            for info in self._objects.list(prefix)
        ]
        unknown: list[str] = []
        manifests = self._listed(TASKS, unknown)
        hand_overs = self._listed(HAND_OVERS, unknown)
        self._needed = {listed.name: (listed.objects, listed.uploaded) for listed in (*manifests, *hand_overs)}
        return Listing(now.modified_ms, tuple(manifests), tuple(hand_overs), tuple(files), tuple(unknown))

    def _listed(self, prefix: str, unknown: list[str]) -> list[ListedManifest]:
        infos = [info for info in self._objects.list(prefix) if parse_name(info.name) or number_of(info.name)]
        listed = []
        for info, needed in zip(infos, for_all(lambda info: self._needed_by(info.name), infos), strict=True):
            if needed is None:
                unknown.append(info.name)
            else:
                listed.append(ListedManifest(info.name, parse_name(info.name), info.modified_ms, *needed))
        return listed

    def _needed_by(self, name: str) -> _Needed | None:
        """Returns the objects that a manifest needs, and those that were uploaded for it; None if nobody here knows
        them. A manifest never changes, so each is read once."""
        if name in self._needed:
            return self._needed[name]
        place = parse_name(name)
        try:
            content = self._objects.read(name)
            if place is None:
                return decode_hand_over(content, number_of(name) or 0, self._application_id).objects, frozenset()
            manifest = decode(content, place, self._application_id)
            return manifest.objects, manifest.uploaded
        except (CheckpointFormatError, ObjectMissingError):
            return None
        except CheckpointDamagedError:
            return None, frozenset()

    def carry_out(self, plan: DeletionPlan) -> None:
        """Delete what ``plan`` names."""
        self._objects.delete(plan.manifests)
        self._objects.delete(plan.files)

    def delete_unneeded(self) -> DeletionPlan:
        """Delete what is not needed, and return it. Only the coordinator calls this, now and then."""
        listing = self.listing()
        damaged = [it.name for it in (*listing.manifests, *listing.hand_overs) if it.objects is None]
        if listing.unknown or damaged:
            logger(__name__).warning(
                "no file of a checkpoint is deleted while there are manifests that cannot be read; damaged ones are "
                "deleted when there are newer ones",
                of_a_newer_version=listing.unknown,
                damaged=damaged,
            )
        plan = plan_deletion(listing)
        self.carry_out(plan)
        return plan

    def delete_everything(self) -> None:
        """Delete all checkpoints and hand-overs of the application, which must not run."""
        for prefix in (TASKS, HAND_OVERS, FILES, HAND_OVER_FILES):
            self._objects.delete([info.name for info in self._objects.list(prefix)])
        self._objects.delete([_CLOCK])

    def _download(self, manifest: CheckpointManifest, file: FileInCheckpoint, path: Path) -> None:
        damage = None
        try:
            self._objects.download(file.object, path)
        except ObjectMissingError:
            damage = "is missing"
        else:
            size = path.stat().st_size
            if size != file.size:
                damage = f"has {size} bytes instead of {file.size}"
            elif digest_of_file(path) != file.digest:
                damage = "does not fit its hash"
        if damage is not None:
            raise CheckpointDamagedError(
                f"checkpoint {manifest.name} is damaged: its file {path.name}, object {file.object} in "
                f"{self._objects.url}, {damage}"
            )
