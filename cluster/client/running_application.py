"""``RunningApplication``: queries an application that another process has started."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from typing_extensions import override

from penstock.cluster.client import control
from penstock.cluster.client.store_access import StoreAccess, StoreShape
from penstock.cluster.queries.metrics import MetricName, metrics_of
from penstock.cluster.queries.store_reader import StoreReader
from penstock.cluster.ray_cluster import connections
from penstock.cluster.read_side import state_error
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.errors import ApplicationStateError


class RunningApplication(StoreAccess):
    """An application that runs, whichever process has started it: ``KafkaStreams.connect`` gives one. ::

        with ps.KafkaStreams.connect("word-count") as running:
            print(running.state(), running.store("counts").get("import"))

    It only reads: stores, state, status and metrics. Its methods may be called from any thread. The code of the
    program's serdes and values must be importable here.
    """

    def __init__(self, application_id: str) -> None:
        """Use :meth:`KafkaStreams.connect`, which connects to the Ray cluster first."""
        self._application_id = application_id
        self._reader: StoreReader | None = None
        self._viewing = threading.Lock()
        self._closed = False

    @staticmethod
    def connect(application_id: str) -> RunningApplication:
        """See :meth:`KafkaStreams.connect <penstock.cluster.client.kafka_streams.KafkaStreams.connect>`."""
        connections.connect_to(application_id)
        control.require_status(application_id)
        return RunningApplication(application_id)

    def __enter__(self) -> Self:
        """Returns this object."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """``close()``."""
        self.close()

    @property
    @override
    def application_id(self) -> str:
        """``application.id``."""
        return self._application_id

    def state(self) -> ApplicationState:
        """The state of the application."""
        return self.status().state

    def status(self) -> ApplicationStatus:
        """State, actors, tasks with their lags and placement, as each stream actor last reported.

        Raises ApplicationStateError when the application does not run here any more, or does not answer.
        """
        return control.require_status(self._application_id)

    def metrics(self) -> Mapping[MetricName, float]:
        """Kafka Streams' metrics of the whole application, as of ``status()``. Mirrors ``metrics()``."""
        return metrics_of(self.status())

    def close(self) -> None:
        """End the views of stores that it has returned. The application continues, and so does this process' connection
        to Ray. Idempotent."""
        self._closed = True
        self._end_views()

    @override
    def _shape_of(self, store: str) -> StoreShape:
        if self._closed:
            raise ApplicationStateError(
                f"the connection to application {self._application_id!r} is closed: connect again"
            )
        status = self.status()
        if not status.state.is_live:
            raise state_error(status)
        reader = self._store_reader()
        where = reader.run(store, lambda: reader.queries.store(store))
        return StoreShape(where.kind, where.views)
