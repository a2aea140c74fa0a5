"""Fetches the newest checkpoint of a task that is whole and that fits."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from penstock.checkpoints.errors import CheckpointDamagedError
from penstock.checkpoints.fitness import ExpectedState, Verdict, judge
from penstock.checkpoints.manifest import CheckpointManifest
from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.log import logger


class Fetched(NamedTuple):
    """A checkpoint that is in the folder. The stores of ``verdict.wipe`` must be wiped when they are opened."""

    manifest: CheckpointManifest
    verdict: Verdict


def fetch_newest(repository: CheckpointRepository, task: str, expected: ExpectedState, folder: Path) -> Fetched | None:
    """Download the newest checkpoint of ``task`` that fits and is whole to ``folder``, which must not exist. Returns
    None without one: then the changelogs have everything.

    Raises ObjectStoreError if the storage does not answer, OSError if the folder cannot be written.
    """
    log = logger(__name__)
    for manifest in repository.newest_first(task):
        verdict = judge(manifest, expected)
        if verdict.refused is not None:
            log.warning("a checkpoint does not fit", task=task, checkpoint=str(manifest.name), why=verdict.refused)
            continue
        try:
            repository.fetch(manifest, folder)
        except CheckpointDamagedError as error:
            log.warning("a checkpoint is damaged: an older one, or the changelog, is used", task=task, error=str(error))
            continue
        return Fetched(manifest, verdict)
    return None
