"""Deletes the checkpoints that nothing needs any more. Only a coordinator does, and only while it is a member of the
group.

A coordinator that does not know yet that it has lost its session does no harm: what it deletes was not needed for an
hour, and no object's name is used twice (:mod:`penstock.checkpoints.deletion`).
"""

from __future__ import annotations

from structlog.stdlib import BoundLogger

from penstock.actors.checkpoints.storage import CheckpointStorage
from penstock.common.errors import StreamsError

DELETE_EACH_S = 600.0


class CheckpointDeletion:
    """The deletions of one coordinator; its method is for one thread at a time."""

    def __init__(self, storage: CheckpointStorage, log: BoundLogger) -> None:
        self._storage = storage
        self._log = log
        self._fails = False

    def delete_unneeded(self) -> None:
        """Delete what is not needed. An error of the storage is logged once, until it has answered again."""
        try:
            plan = self._storage.repository().delete_unneeded()
        except StreamsError as error:
            if not self._fails:
                self._fails = True
                self._log.warning("old checkpoints cannot be deleted, retrying", error=str(error))
            return
        if self._fails:
            self._fails = False
            self._log.info("old checkpoints can be deleted again")
        if plan.manifests or plan.files:
            self._log.info("old checkpoints deleted", checkpoints=len(plan.manifests), files=len(plan.files))
