"""The players of the state machine: holders of the task, and their saves, restores and deletions under way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.checkpoints.fetching import Fetched
from penstock.checkpoints.manifest import CheckpointManifest, ManifestName
from penstock.checkpoints.writer import CheckpointWriter
from tests.checkpoints.processes import Gate, Process

Rows = dict[str, bytes]
"""The files of a database, by name. ``MANIFEST`` names the others, and the commit."""


@dataclass(eq=False)
class Holder:
    """An actor that has the task under ``epoch``, and has done ``commits`` commits of the task."""

    epoch: int
    gate: Gate
    writer: CheckpointWriter
    tables: Rows
    commits: int
    process: Save | None = None
    tables_made: int = 0

    def rows(self) -> Rows:
        """All files of its database."""
        return {**self.tables, "MANIFEST": f"{self.commits}: {sorted(self.tables)}".encode()}


@dataclass(eq=False)
class Save:
    """A save under way."""

    process: Process[CheckpointManifest]
    holder: Holder
    began_ms: int


@dataclass(eq=False)
class Restore:
    """A restore under way. ``saved``: the newest checkpoint that was whole when it began."""

    process: Process[Fetched | None]
    folder: Path
    began_ms: int
    saved: ManifestName | None


@dataclass(eq=False)
class Deletion:
    """A deletion under way."""

    process: Process[Any]


Playing = Save | Restore | Deletion


@dataclass(eq=False)
class Seen:
    """What the machine remembers of manifests. ``superseded_by``: those of later holders that were there before it."""

    late: set[ManifestName] = field(default_factory=set)
    superseded_by: dict[ManifestName, set[ManifestName]] = field(default_factory=dict)
    known: dict[ManifestName, CheckpointManifest] = field(default_factory=dict)
