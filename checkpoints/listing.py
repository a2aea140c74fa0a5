"""A listing of all checkpoints of an application: what a deletion must know, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.checkpoints.manifest import ManifestName


@dataclass(frozen=True)
class ListedManifest:
    """The manifest of a checkpoint, or of a hand-over (then ``place`` is None).

    ``created_ms``: when the storage took it. ``objects``: the names and sizes of all objects that it needs; None if it
    is damaged, so that nothing can be restored from it. ``uploaded``: those that were uploaded for it.
    """

    name: str
    place: ManifestName | None
    created_ms: int
    objects: Mapping[str, int] | None
    uploaded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ListedFile:
    """An object that holds the content of a file."""

    name: str
    size: int
    created_ms: int


@dataclass(frozen=True)
class Listing:
    """All objects of an application, as of ``now_ms`` by the clock of the storage. The files were listed before the
    manifests, so that every file that a manifest reached meanwhile is known as reached.

    ``unknown``: names of manifests that cannot be judged: a newer penstock has written them, or another deleter has
    deleted them after they were listed.
    """

    now_ms: int
    manifests: tuple[ListedManifest, ...]
    hand_overs: tuple[ListedManifest, ...]
    files: tuple[ListedFile, ...]
    unknown: tuple[str, ...] = ()
