"""Writes the checkpoints of one task under one epoch: new files first, then the manifest that makes them a checkpoint.

A writer uses an object again only if the newest manifest of its task names it, because no deletion takes away what
that manifest names. All other files are uploaded under new names.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from penstock.checkpoints.errors import (
    CheckpointDamagedError,
    CheckpointFormatError,
    CheckpointLateError,
    CheckpointSupersededError,
)
from penstock.checkpoints.file_digests import FileDigests
from penstock.checkpoints.limits import DELETION_DELAY_MS, LONGEST_UPLOAD_MS
from penstock.checkpoints.manifest import (
    FILES,
    CheckpointDraft,
    CheckpointManifest,
    FileInCheckpoint,
    ManifestName,
    decode,
    encode,
    parse_name,
    prefix_of,
)
from penstock.checkpoints.transfers import for_all, upload
from penstock.common.errors import ObjectExistsError, ObjectMissingError
from penstock.objects.contracts import ObjectStore


class CheckpointWriter:
    """The only writer of ``task`` under ``epoch``. Every later holder of the task must have a greater epoch.

    ``objects`` are those of the application. ``clock_ms`` measures how long an upload takes. Not for several threads at
    once, but for any thread.
    """

    def __init__(
        self,
        objects: ObjectStore,
        application_id: str,
        task: str,
        epoch: int,
        clock_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
    ) -> None:
        self._objects = objects
        self._application_id = application_id
        self._task = task
        self._epoch = epoch
        self._clock_ms = clock_ms
        self._digests = FileDigests()
        self._last: CheckpointManifest | None = None
        self._tried = 0

    def save(self, folder: Path, draft: CheckpointDraft) -> CheckpointManifest:
        """Upload the files of ``folder`` that the task's newest checkpoint does not have, and write a manifest.

        Raises CheckpointSupersededError if a newer epoch has written a checkpoint, also if that happened meanwhile: the
        task belongs to another actor. CheckpointLateError and ObjectStoreError do no harm: save a later checkpoint.
        Whatever is raised, no other checkpoint has changed.
        """
        began = self._clock_ms()
        newest = self._newest()
        local = self._digests.of_folder(folder)
        usable = self._usable(newest, {file.digest for file in local})
        stored = for_all(lambda file: usable.get(file.digest) or upload(self._objects, FILES, file), local)
        self._tried = max(self._tried, newest.sequence if newest is not None and newest.epoch == self._epoch else 0) + 1
        manifest = CheckpointManifest(
            application_id=self._application_id,
            task=self._task,
            epoch=self._epoch,
            sequence=self._tried,
            taken_at_ms=draft.taken_at_ms,
            stores=draft.stores,
            inputs=draft.inputs,
            files={file.name: content for file, content in zip(local, stored, strict=True)},
        )
        self._require_in_time(began)
        self._create(manifest)
        self._newest()
        self._require_in_time(began)
        self._last = manifest
        return manifest

    def _newest(self) -> ManifestName | None:
        """Returns the name of the task's newest manifest. Raises CheckpointSupersededError if it is of another actor
        that has got the task later."""
        names = (parse_name(info.name) for info in self._objects.list(prefix_of(self._task)))
        newest = max((name for name in names if name is not None), default=None)
        if newest is not None and newest.epoch > self._epoch:
            raise CheckpointSupersededError(
                f"task {self._task} has the checkpoint {newest} of a newer epoch than {self._epoch}: this actor does "
                "not have the task any more, and takes no further checkpoints of it"
            )
        return newest

    def _usable(self, newest: ManifestName | None, wanted: set[str]) -> dict[str, FileInCheckpoint]:
        """Returns the objects of the newest checkpoint with a wanted content, by the hash of that."""
        if newest is None:
            return {}
        created = self._objects.info(str(newest))
        own = self._last if self._last is not None and self._last.name == newest else None
        try:
            manifest = own or decode(self._objects.read(str(newest)), newest, self._application_id)
        except (ObjectMissingError, CheckpointDamagedError, CheckpointFormatError):
            return {}
        if created is None:
            return {}
        in_time = created.modified_ms - DELETION_DELAY_MS
        by_object = {file.object: file for file in manifest.files.values()}
        same = [file for file in by_object.values() if file.digest in wanted]
        # By the storage's clock: this machine's does not move while it is suspended, or paused.
        # What this writer has used again before, it has looked at then.
        known = own is not None
        safe = for_all(lambda file: (known and not file.uploaded) or self._is_safe(file, in_time), same)
        return {file.digest: replace(file, uploaded=False) for file, it_is in zip(same, safe, strict=True) if it_is}

    def _is_safe(self, file: FileInCheckpoint, in_time: int) -> bool:
        """Returns True if the object is there, and no deleter, however late, takes it for one without a manifest: it
        was uploaded for an earlier checkpoint, or shortly before the manifest."""
        info = self._objects.info(file.object)
        return info is not None and info.size == file.size and (not file.uploaded or info.modified_ms > in_time)

    def _create(self, manifest: CheckpointManifest) -> None:
        content = encode(manifest)
        try:
            self._objects.create(str(manifest.name), content)
        except ObjectExistsError:
            # The client repeats a request of which it has seen no answer.
            if self._objects.read(str(manifest.name)) != content:
                raise CheckpointSupersededError(
                    f"task {self._task} has another checkpoint {manifest.name}: two actors hold the task under epoch "
                    f"{self._epoch}"
                ) from None

    def _require_in_time(self, began: float) -> None:
        took_ms = self._clock_ms() - began
        if took_ms > LONGEST_UPLOAD_MS:
            raise CheckpointLateError(
                f"the upload of a checkpoint of task {self._task} has taken {took_ms / 60_000:.0f} minutes, and may "
                f"take {LONGEST_UPLOAD_MS // 60_000} at most: {self._objects.url} is too slow for its "
                "size, or the actor was stopped meanwhile"
            )
