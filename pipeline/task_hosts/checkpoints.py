"""The stores of a task at its end as checkpoint files in object storage, from which the live application starts."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass

from penstock.checkpoints.hand_overs import HandedOverTask, upload_handed_over
from penstock.checkpoints.manifest import CheckpointDraft, StoreInCheckpoint
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.task_hosts.stores import TaskDisk
from penstock.tasks.state_manager import StateManager

_FOLDER = "checkpoint"


@dataclass(frozen=True)
class CheckpointUpload:
    """Uploads the stores of tasks of ``application_id`` to ``location``, ``state.checkpoint.uri``. Picklable."""

    location: ObjectLocation
    application_id: str

    def upload(self, manager: StateManager, disk: TaskDisk) -> HandedOverTask | None:
        """Upload what is on disk after the last commit of a task. Returns None if all of its stores are in memory.

        What is returned has no input offsets, and only those of changelogs that the stores were restored to. The driver
        knows the others when it has written the changelogs.
        """
        programmed = manager.program
        if not any(builder.persistent for builder in programmed.stores.values()):
            return None
        folder = disk.directory / _FOLDER
        manager.flush_to_disk()
        in_folder = manager.checkpoint(folder)
        stores = {}
        for name, store in in_folder.items():
            changelog = programmed.changelogs.get(name)
            topic = None if changelog is None else changelog.topic
            stores[name] = StoreInCheckpoint(store.layout, topic, None, store.changelog_offset)
        draft = CheckpointDraft(int(time.time() * 1000), stores, {})
        try:
            return upload_handed_over(self.location.open(), self.application_id, folder, draft)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
