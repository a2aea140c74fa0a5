"""The object storage of an application's checkpoints, opened when it is first needed."""

from __future__ import annotations

import threading

from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.config import StreamsConfig
from penstock.objects.storage import ObjectLocation


class CheckpointStorage:
    """The repository of an application, for any thread."""

    def __init__(self, location: ObjectLocation, application_id: str) -> None:
        self._location = location
        self._application_id = application_id
        self._lock = threading.Lock()
        self._opened: CheckpointRepository | None = None

    @classmethod
    def of(cls, config: StreamsConfig) -> CheckpointStorage | None:
        """Returns the storage that ``config`` names; None without one."""
        if config.state_checkpoint_uri is None:
            return None
        location = ObjectLocation(config.state_checkpoint_uri, config.object_store_settings)
        return cls(location, config.application_id)

    def repository(self) -> CheckpointRepository:
        """Returns the repository. Raises ConfigError and ObjectStoreError if the storage cannot be opened."""
        with self._lock:
            if self._opened is None:
                self._opened = CheckpointRepository(self._location.open(), self._application_id)
            return self._opened
