"""``KafkaStreams``: what a user holds of an application."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from penstock.actors.messages import ApplicationSpec, ApplicationState, ApplicationStatus
from penstock.cluster import control
from penstock.cluster.http_actor import Serve, host_and_port, start_http
from penstock.cluster.store_view import ReadOnlyKeyValueStore
from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, ConfigError, UnknownStateStoreError
from penstock.kafka.clients import ConfluentClients
from penstock.topology.graph import Topology
from penstock.topology.internal_topics import plan_topics

_LOOK_EACH_S = 0.1


class KafkaStreams:
    """One application: a topology with its configuration, and the means to run it. Mirrors ``KafkaStreams``.

    Creating it only checks the configuration: no Ray, no broker. It can be pickled until it is started.
    """

    def __init__(self, topology: Topology, config: Mapping[str, Any]) -> None:
        """``config``: Kafka Streams' keys. Raises ConfigError naming the key that is wrong."""
        checked = StreamsConfig.of(config)
        if checked.processing_guarantee == "exactly_once_v2":
            raise ConfigError(
                "configuration key 'processing.guarantee': exactly_once_v2 comes in a later release; "
                "this one has at_least_once"
            )
        if checked.application_server:
            host_and_port(checked.application_server)
        self._clients = ConfluentClients.of(checked)
        self._spec = ApplicationSpec(topology, checked)
        self._coordinator: Any = None
        self._last: ApplicationStatus | None = None
        self._views: dict[str, ReadOnlyKeyValueStore] = {}

    def __getstate__(self) -> dict[str, Any]:
        if self._coordinator is not None:
            raise ApplicationStateError(f"application {self.application_id!r} is started: only one that is not travels")
        return {**self.__dict__, "_views": {}}

    @property
    def application_id(self) -> str:
        """``application.id``."""
        return self._spec.application_id

    @property
    def topology(self) -> Topology:
        """What it runs."""
        return self._spec.topology

    @property
    def config(self) -> StreamsConfig:
        """The checked configuration."""
        return self._spec.config

    def describe(self) -> str:
        """The text of Kafka Streams' ``Topology.describe()``."""
        return self._spec.topology.describe()

    def check(self) -> None:
        """Whether the broker answers and the topics fit. Raises what ``start`` raises of Kafka, starts nothing."""
        plan_topics(self.topology, self.config, self._clients.admin().topics())

    def start(self) -> None:
        """Start the application in the Ray cluster; returns when its coordinator exists, before the first record.

        Connects to Ray unless this process is connected: to ``RAY_ADDRESS``, else to a cluster on this machine, else
        to a new one that lives as long as this process. Raises BrokerUnreachableError (within 10 s), MissingTopicError,
        InternalTopicError, TopologyError, and ApplicationStateError when the application runs already.
        """
        if self._coordinator is not None:
            raise ApplicationStateError(f"application {self.application_id!r} was started before: make a new object")
        self.check()
        control.connect()
        self._coordinator = control.start_coordinator(self._spec)

    def serve(self, server: Serve) -> str:
        """Host an HTTP server at ``application.server``, in an actor on this node; returns its address."""
        self._started()
        return start_http(self.application_id, self.config.application_server, server)

    def state(self) -> ApplicationState:
        """Where the application stands; CREATED before ``start``."""
        return self.status().state

    def status(self) -> ApplicationStatus:
        """State, actors, tasks with their lags, placement: as the coordinator knows them, at most a second old."""
        if self._coordinator is None:
            return ApplicationStatus(self.application_id, ApplicationState.CREATED, 0, (), {})
        if self._last is None or self._last.state not in control.ENDED:
            status = control.status_of(self._coordinator)
            if status is None:  # someone else has stopped it and ended its coordinator
                status = ApplicationStatus(self.application_id, ApplicationState.NOT_RUNNING, 0, (), {})
            self._last = status
        return self._last

    def wait_until_running(self, timeout_s: float = 60.0) -> None:
        """Wait until every task runs. Raises ApplicationStateError, with the error's text, if it ends or time does."""
        deadline = time.monotonic() + timeout_s
        while (status := self.status()).state is not ApplicationState.RUNNING:
            if status.state in control.ENDED or status.state is ApplicationState.PENDING_ERROR:
                raise ApplicationStateError(
                    f"application {self.application_id!r} is in state {status.state.value}: {status.error or 'stopped'}"
                )
            if time.monotonic() >= deadline:
                cpus = control.cluster_cpus()
                raise ApplicationStateError(
                    f"application {self.application_id!r} is still {status.state.value} after {timeout_s:.0f} s "
                    f"({len(status.actors)} actors up, {cpus} CPUs in the Ray cluster)"
                )
            time.sleep(_LOOK_EACH_S)

    def store(self, name: str) -> ReadOnlyKeyValueStore:
        """A read-only view of a state store, over all tasks. Mirrors interactive queries.

        Raises UnknownStateStoreError naming the stores there are.
        """
        self._started()
        if name not in (known := self.topology.store_builders):
            raise UnknownStateStoreError(
                f"application {self.application_id!r} has no state store {name!r}; its stores: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        if name not in self._views:
            self._views[name] = ReadOnlyKeyValueStore(self.application_id, name)
        return self._views[name]

    def close(self, timeout_s: float = 60.0) -> bool:
        """Drain, commit, and end all actors of the application, the HTTP server too. Idempotent.

        False when it took longer than ``timeout_s``: the actors were then ended without a commit, and what they did
        since the last one is done again at the next start.
        """
        if self._coordinator is None:
            return True
        for view in self._views.values():
            view.close()
        self._views.clear()
        if self._last is not None and self._last.state in control.ENDED:
            control.end_actors(self.application_id)
            return True
        status = control.stop_application(self.application_id, timeout_s)
        self._last = status or ApplicationStatus(self.application_id, ApplicationState.NOT_RUNNING, 0, (), {})
        return status is not None

    def _started(self) -> None:
        if self._coordinator is None:
            raise ApplicationStateError(f"application {self.application_id!r} is not started: call start() first")
