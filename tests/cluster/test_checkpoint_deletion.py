"""The coordinator deletes old checkpoints, and nobody else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from penstock.actors.checkpoints.storage import CheckpointStorage
from penstock.checkpoints.limits import DELETION_DELAY_MS, KEPT
from penstock.checkpoints.manifest import CheckpointDraft, StoreInCheckpoint
from penstock.checkpoints.repository import CheckpointRepository
from penstock.cluster.watchers.checkpoint_deletion import CheckpointDeletion
from penstock.common.errors import ObjectStoreError
from penstock.objects.memory import MemoryObjects
from penstock.objects.storage import ObjectLocation

STORES = {"counts": StoreInCheckpoint("plain", "counts-changelog", "id", 7)}


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def objects(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> MemoryObjects:
    objects = MemoryObjects(clock)
    monkeypatch.setattr(ObjectLocation, "open", lambda self: objects)
    return objects


@pytest.fixture
def deletion(objects: MemoryObjects) -> CheckpointDeletion:
    log: Any = structlog.get_logger()
    return CheckpointDeletion(CheckpointStorage(ObjectLocation("s3://bucket"), "app"), log)


def test_all_but_the_newest_are_deleted_when_they_are_old(
    objects: MemoryObjects, clock: Clock, deletion: CheckpointDeletion, tmp_path: Path
) -> None:
    repository = CheckpointRepository(objects, "app")
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "1.sst").write_text(str(number))
        repository.writer("0_0", number).save(folder, CheckpointDraft(number, STORES, {}))
        clock.now_ms += 1000
    deletion.delete_unneeded()
    assert len(list(repository.newest_first("0_0"))) == 5, "a restore may be reading them"
    for _ in range(2):  # manifests first, then their files
        clock.now_ms += DELETION_DELAY_MS
        deletion.delete_unneeded()
    assert [found.epoch for found in repository.newest_first("0_0")] == [4, 3][:KEPT]
    assert len(list(objects.list("app/files/"))) == KEPT


def test_an_outage_of_the_storage_is_logged_once(deletion: CheckpointDeletion, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: CheckpointRepository) -> None:
        raise ObjectStoreError("no answer")

    with capture_logs() as logged:
        with monkeypatch.context() as patched:
            patched.setattr(CheckpointRepository, "delete_unneeded", fail)
            deletion.delete_unneeded()
            deletion.delete_unneeded()
        deletion.delete_unneeded()
    assert [line["event"] for line in logged] == [
        "old checkpoints cannot be deleted, retrying", "old checkpoints can be deleted again",
    ]  # fmt: skip
