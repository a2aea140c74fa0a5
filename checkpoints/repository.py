"""The checkpoints of one application in object storage."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from penstock.checkpoints.errors import CheckpointDamagedError, CheckpointFormatError
from penstock.checkpoints.manifest import (
    CheckpointManifest,
    FileInCheckpoint,
    decode,
    parse_name,
    prefix_of,
)
from penstock.checkpoints.transfers import for_all
from penstock.checkpoints.writer import CheckpointWriter
from penstock.common.errors import ObjectMissingError
from penstock.common.log import logger
from penstock.objects.contracts import ObjectStore
from penstock.objects.digests import digest_of_file
from penstock.objects.prefix import ObjectsBelow


class CheckpointRepository:
    """The checkpoints of ``application_id`` below the URL of ``objects``. For several threads at once."""

    def __init__(self, objects: ObjectStore, application_id: str) -> None:
        self._objects = ObjectsBelow(objects, f"{application_id}/")
        self._application_id = application_id

    def writer(self, task: str, epoch: int) -> CheckpointWriter:
        """Returns a writer of ``task``. Every later holder of the task must have a greater epoch."""
        return CheckpointWriter(self._objects, self._application_id, task, epoch)

    def newest_first(self, task: str) -> Iterator[CheckpointManifest]:
        """Yields the checkpoints of ``task``, the newest first, each read when it is asked for.

        Passes over manifests that are damaged, deleted meanwhile, or of a newer penstock; the log names them. The files
        of a checkpoint may still be missing or damaged: :meth:`fetch` finds that.
        """
        names = [parse_name(info.name) for info in self._objects.list(prefix_of(task))]
        for name in sorted((name for name in names if name is not None), reverse=True):
            try:
                manifest = decode(self._objects.read(str(name)), name, self._application_id)
            except ObjectMissingError:
                continue
            except (CheckpointDamagedError, CheckpointFormatError) as error:
                logger(__name__).warning("a checkpoint cannot be used", task=task, error=str(error))
                continue
            yield manifest

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
