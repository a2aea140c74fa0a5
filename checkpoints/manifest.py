"""Manifests of checkpoints: their content, and the names of objects below an application's prefix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from penstock.checkpoints.errors import CheckpointDamagedError
from penstock.checkpoints.sealed import seal, unseal

FILES = "files/"
"""The prefix of the objects that hold the files of checkpoints."""
HAND_OVER_FILES = "hand-over-files/"
"""The prefix of the objects that hold the files of hand-overs."""
TASKS = "tasks/"
"""The prefix of the manifests of all tasks."""
_NAME = re.compile(rf"{TASKS}(?P<task>[^/]+)/(?P<epoch>\d{{20}})-(?P<sequence>\d{{20}})\.json")


class StoreInCheckpoint(msgspec.Struct, frozen=True):
    """One store. ``form``: the form of its rows (:attr:`StoreBuilder.layout`). ``changelog``: the topic of its
    changelog, None without one. ``changelog_offset``: the next offset to restore from; None if nothing was ever
    written."""

    form: str
    changelog: str | None
    changelog_topic_id: str | None
    changelog_offset: int | None


class InputInCheckpoint(msgspec.Struct, frozen=True):
    """One partition of an input topic. ``offset``: the next offset to process, as committed together with the rows.
    ``metadata``: the text committed with it."""

    offset: int
    metadata: str
    topic_id: str | None


class FileInCheckpoint(msgspec.Struct, frozen=True):
    """The content of one file: its hash, its bytes, and the name of the object that holds it: ``files/`` or
    ``hand-over-files/``, the hash, and random digits. ``uploaded``: True if it was uploaded for this checkpoint,
    False if it is an object of the checkpoint before.

    The digits are new for each upload: if an object was deleted, no later upload brings its name back, so a deletion
    that comes late harms no newer checkpoint.
    """

    digest: str
    size: int
    object: str
    uploaded: bool = True


Stores = dict[str, StoreInCheckpoint]
"""Stores by name."""
Inputs = dict[str, dict[int, InputInCheckpoint]]
"""Input partitions by topic and number."""
Files = dict[str, FileInCheckpoint]
"""Files by their path below the task's directory, such as ``rocksdb/CURRENT``."""


@dataclass(frozen=True)
class CheckpointDraft:
    """The part of a checkpoint that its files do not have: when its rows were committed (ms), its stores, and the input
    offsets of that commit."""

    taken_at_ms: int
    stores: Stores
    inputs: Inputs


class CheckpointManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint of one task. ``epoch``: of the assignment under which an actor had the task. ``sequence`` counts
    the checkpoints under that epoch, from 1; 0 is the task's part of a hand-over. ``taken_at_ms``: when its rows were
    committed."""

    application_id: str
    task: str
    epoch: int
    sequence: int
    taken_at_ms: int
    stores: Stores
    inputs: Inputs
    files: Files

    @property
    def name(self) -> ManifestName:
        """Its place among all checkpoints."""
        return ManifestName(self.task, self.epoch, self.sequence)

    @property
    def objects(self) -> dict[str, int]:
        """Names and sizes of all objects that it needs."""
        return {file.object: file.size for file in self.files.values()}

    @property
    def uploaded(self) -> frozenset[str]:
        """The names of those that were uploaded for it."""
        return frozenset(file.object for file in self.files.values() if file.uploaded)

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files.values())


class ManifestName(NamedTuple):
    """The parts of the name of a manifest's object. Of two manifests of a task, the greater one is newer."""

    task: str
    epoch: int
    sequence: int

    def __str__(self) -> str:
        return f"{prefix_of(self.task)}{self.epoch:020}-{self.sequence:020}.json"


def prefix_of(task: str) -> str:
    """Returns the prefix of the names of a task's manifests."""
    return f"{TASKS}{task}/"


def parse_name(name: str) -> ManifestName | None:
    """Returns the parts of an object's name; None if the object is no manifest of a task."""
    match = _NAME.fullmatch(name)
    return ManifestName(match["task"], int(match["epoch"]), int(match["sequence"])) if match else None


def encode(manifest: CheckpointManifest) -> bytes:
    """Returns the content of a manifest's object."""
    return seal(manifest)


def decode(content: bytes, name: ManifestName, application_id: str) -> CheckpointManifest:
    """Returns the manifest in the object of this name and content. Raises like :func:`unseal`."""
    manifest = unseal(content, CheckpointManifest, f"checkpoint {name}")
    if (manifest.name, manifest.application_id) != (name, application_id):
        raise CheckpointDamagedError(
            f"checkpoint {name} of {application_id} is damaged: the object has the manifest {manifest.name} of "
            f"{manifest.application_id}"
        )
    return manifest
