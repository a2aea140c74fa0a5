"""Hand-overs: the state, input offsets and sink positions of all tasks that a backfill gives to the live application.

A hand-over is one object, created only if absent: it is there for all tasks or for none. Like a checkpoint, it is a
shortcut: the backfill has written the same rows to the changelogs, up to the offsets that the hand-over names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from penstock.checkpoints.errors import CheckpointDamagedError, CheckpointFormatError, CheckpointSupersededError
from penstock.checkpoints.file_digests import FileDigests
from penstock.checkpoints.manifest import (
    HAND_OVER_FILES,
    TASKS,
    CheckpointDraft,
    CheckpointManifest,
    Files,
    Inputs,
    Stores,
    parse_name,
)
from penstock.checkpoints.sealed import seal, unseal
from penstock.checkpoints.transfers import for_all, upload
from penstock.common.errors import ObjectExistsError
from penstock.common.log import logger
from penstock.objects.contracts import ObjectStore
from penstock.objects.manifest_log import ManifestLog
from penstock.objects.prefix import ObjectsBelow

HAND_OVERS = "hand-overs/"
"""The prefix of the names of hand-overs."""
_NAME = re.compile(rf"{HAND_OVERS}(\d{{20}})\.json")


class SinkPosition(msgspec.Struct, frozen=True):
    """The end of one partition of a sink topic: the offset after the last record that the backfill has written."""

    offset: int
    topic_id: str | None


Sinks = dict[str, dict[int, SinkPosition]]
"""Partitions of sink topics, by topic and number."""


class HandedOverTask(msgspec.Struct, frozen=True):
    """The part of one task: a checkpoint in all but its place."""

    taken_at_ms: int
    stores: Stores
    inputs: Inputs
    files: Files


class HandOver(msgspec.Struct, frozen=True, kw_only=True):
    """One hand-over. ``run``: the text by which the backfill knows its run. ``epoch``: above that of all checkpoints at
    the run's beginning."""

    application_id: str
    number: int
    run: str
    epoch: int
    tasks: dict[str, HandedOverTask]
    sinks: Sinks

    @property
    def objects(self) -> dict[str, int]:
        """Names and sizes of all objects that it needs."""
        return {file.object: file.size for task in self.tasks.values() for file in task.files.values()}

    def checkpoint(self, task: str) -> CheckpointManifest | None:
        """Returns the part of ``task`` as a checkpoint, which precedes all that are made later; None without one."""
        part = self.tasks.get(task)
        if part is None:
            return None
        return CheckpointManifest(
            application_id=self.application_id,
            task=task,
            epoch=self.epoch,
            sequence=0,
            taken_at_ms=part.taken_at_ms,
            stores=part.stores,
            inputs=part.inputs,
            files=part.files,
        )


def decode_hand_over(content: bytes, number: int, application_id: str) -> HandOver:
    """Returns the hand-over in the object of this number and content. Raises like :func:`unseal`."""
    where = f"hand-over {number} of {application_id}"
    found = unseal(content, HandOver, where)
    if (found.number, found.application_id) != (number, application_id):
        raise CheckpointDamagedError(f"{where} is damaged: the object has number {found.number} of another place")
    return found


def hand_over_log(objects: ObjectStore) -> ManifestLog:
    """Returns the log of the hand-overs of the application whose objects these are."""
    return ManifestLog(objects, HAND_OVERS)


def readable_hand_overs(objects: ObjectStore, application_id: str) -> Iterator[HandOver]:
    """Yields the hand-overs of the application whose objects these are, in their order. The log names those that are
    damaged, or of a newer penstock."""
    for number, content in hand_over_log(objects).entries():
        try:
            yield decode_hand_over(content, number, application_id)
        except (CheckpointDamagedError, CheckpointFormatError) as error:
            logger(__name__).warning("a hand-over cannot be used", error=str(error))


def number_of(name: str) -> int | None:
    """Returns the number of the hand-over in the object of this name; None if that is none."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def newest_epoch(objects: ObjectStore) -> int:
    """Returns the newest epoch under which a checkpoint of the application was written; 0 without one."""
    return max((name.epoch for info in objects.list(TASKS) if (name := parse_name(info.name))), default=0)


def upload_handed_over(
    objects: ObjectStore, application_id: str, folder: Path, draft: CheckpointDraft
) -> HandedOverTask:
    """Upload the checkpoint of a task in ``folder`` for a hand-over of ``application_id``, from any process. It counts
    only when :meth:`HandOverWriter.commit` names it; a later upload of the same task takes its place."""
    own, local = ObjectsBelow(objects, f"{application_id}/"), FileDigests().of_folder(folder)
    stored = for_all(lambda file: upload(own, HAND_OVER_FILES, file), local)
    files = {file.name: content for file, content in zip(local, stored, strict=True)}
    return HandedOverTask(draft.taken_at_ms, draft.stores, draft.inputs, files)


class HandOverWriter:
    """Writes the hand-over of one run of a backfill.

    Two fences keep it apart from a live application. Kafka's: a backfill hands over only while the application's group
    has no member, and the group's offsets are those from which it began. And ``epoch``: if an application was started
    after the run had begun, and has written a checkpoint, nothing is handed over.
    """

    def __init__(self, objects: ObjectStore, application_id: str, run: str, epoch: int) -> None:
        self._objects = ObjectsBelow(objects, f"{application_id}/")
        self._application_id = application_id
        self._log = hand_over_log(self._objects)
        self._run = run
        self._epoch = epoch

    @staticmethod
    def begin(objects: ObjectStore, application_id: str, now_ms: int) -> int:
        """Returns the epoch for a new run, which keeps it if it is resumed: above those of all checkpoints and
        hand-overs that are there, whatever the clock says."""
        own = ObjectsBelow(objects, f"{application_id}/")
        handed_over = max((found.epoch for found in readable_hand_overs(own, application_id)), default=0)
        return max(now_ms, newest_epoch(own) + 1, handed_over + 1)

    def committed(self) -> HandOver | None:
        """Returns the run's hand-over if it was committed: then the run continues with what follows that. Raises like
        :meth:`commit`."""
        self._require_newest()
        return next((found for found in self._found() if found.run == self._run), None)

    def commit(self, tasks: Mapping[str, HandedOverTask], sinks: Sinks) -> HandOver:
        """Hand over all tasks at once. Returns the hand-over that is there already if the run has committed one.

        Raises CheckpointSupersededError if a live application or another run has written since the run began: the run
        must commit no offsets.
        """
        committed = self.committed()
        if committed is not None:
            return committed
        numbers = self._log.numbers()
        if any(found.epoch >= self._epoch for found in self._found()):
            raise CheckpointSupersededError(f"a later backfill of {self._application_id} has handed over its state")
        hand_over = HandOver(
            application_id=self._application_id,
            number=max(numbers, default=0) + 1,
            run=self._run,
            epoch=self._epoch,
            tasks=dict(tasks),
            sinks=sinks,
        )
        content = seal(hand_over)
        try:
            self._log.append(hand_over.number, content)
        except ObjectExistsError:
            if self._log.read(hand_over.number) != content:  # else the client has repeated its request
                raise CheckpointSupersededError(
                    f"another backfill of {self._application_id} has handed over its state at the same time"
                ) from None
        self._require_newest()
        return hand_over

    def _found(self) -> Iterator[HandOver]:
        return readable_hand_overs(self._objects, self._application_id)

    def _require_newest(self) -> None:
        epoch = newest_epoch(self._objects)
        if epoch > self._epoch:
            raise CheckpointSupersededError(
                f"the application {self._application_id} has written a checkpoint under epoch {epoch} since the "
                f"backfill began (epoch {self._epoch}): it must not run while a backfill does. Stop it, and run the "
                "backfill again: it begins from the application's present offsets"
            )
