"""``KafkaStreams``: the object by which a user starts, queries and ends an application."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from typing_extensions import override

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.client import control, local_state, starting
from penstock.cluster.client.actor_changes import ActorChanges
from penstock.cluster.client.before_start import BeforeStart
from penstock.cluster.client.close_options import CloseOptions
from penstock.cluster.client.http_actor import Serve, start_http, stop_http
from penstock.cluster.client.running_application import RunningApplication
from penstock.cluster.client.server_settings import ServerSettings, host_and_port
from penstock.cluster.client.start_checks import check_application
from penstock.cluster.client.state_watcher import StateWatcher
from penstock.cluster.client.store_access import StoreAccess, StoreShape
from penstock.cluster.coordinator_shell.leaving import leave_group
from penstock.cluster.queries.metrics import MetricName, metrics_of
from penstock.cluster.queries.queryable import views_of
from penstock.cluster.queries.store_reader import StoreReader
from penstock.cluster.ray_cluster import connections
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.cluster.read_side import STOPPED, state_error, unknown_store
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, TopologyError
from penstock.common.log import logger
from penstock.kafka.clients import ConfluentClients
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.description import TopologyDescription
from penstock.topology.physical.explicit_names import check_explicit_names
from penstock.topology.physical.pictures import html_of
from penstock.topology.physical.topology import Topology, check_wrapped, checked_topology

_LOOK_EACH_S = 0.1


class KafkaStreams(BeforeStart, ActorChanges, StoreAccess):
    """One application: a topology with its configuration, and the means to run it. Mirrors ``KafkaStreams``.

    ::

        with ps.KafkaStreams(topology, config) as app:  # start() on entry, close() at the end
            app.wait_until_running()

    Creating it only checks program and configuration: no Ray, no broker. It can be pickled until it is started. It runs
    once: after ``close`` make a new object. Its methods may be called from any thread.
    """

    def __init__(self, topology: Topology, config: Mapping[str, Any]) -> None:
        """``config``: Kafka Streams' keys. Raises ConfigError naming the key that is wrong, or the call
        that neither it nor the program gives a serde, and TopologyError when ``topology`` is none."""
        checked_topology(topology)
        checked = StreamsConfig.of(config)
        check_wrapped(topology, checked)
        if checked.ensure_explicit_internal_resource_naming:
            check_explicit_names(topology)
        if checked.application_server:
            host_and_port(checked.application_server)
        TaskProgram.of(topology.every_subtopology, checked)
        if not topology.subtopologies:
            raise TopologyError(
                "the topology has only global tables or stores, so it has no tasks: add a stream or a table"
            )
        super().__init__(ApplicationSpec(topology, checked))
        self._clients = ConfluentClients.of(checked)
        self._last: ApplicationStatus | None = None
        self._reader: StoreReader | None = None
        self._watcher: StateWatcher | None = None
        self._make_locks()

    def _make_locks(self) -> None:
        self._life = threading.Lock()  # held while it starts, and while it closes
        self._viewing = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        if self._coordinator is not None:
            raise ApplicationStateError(f"application {self.application_id!r} cannot be pickled after start()")
        return {key: value for key, value in self.__dict__.items() if key not in ("_life", "_viewing")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_locks()

    def __enter__(self) -> Self:
        """``start()``."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """``close()``; an exception of the block propagates."""
        self.close()

    @property
    def topology(self) -> Topology:
        """The topology that it runs."""
        return self._spec.topology

    @property
    def config(self) -> StreamsConfig:
        """The checked configuration."""
        return self._spec.config

    @staticmethod
    def connect(application_id: str) -> RunningApplication:
        """Connects to an application that another process has started, to query its stores, status and metrics.

        Connects to Ray unless this process is connected: to ``RAY_ADDRESS``, else to the cluster on this machine that
        has the application. In Kafka Streams a program has to ask each instance by a protocol of its own. Raises
        ApplicationStateError, which names the applications that run, if there is none of this id.
        """
        return RunningApplication.connect(application_id)

    def describe(self) -> TopologyDescription:
        """Returns the text of Kafka Streams' ``Topology.describe()``, which also has its parts."""
        return self._spec.topology.describe()

    def _repr_html_(self) -> str:
        """Returns the picture of its topology, for notebooks."""
        return html_of(self._spec.topology, self._spec.config.application_id)

    def check(self) -> None:
        """Make the checks of ``start``, without starting. Raises the same errors.

        The program can be sent to the cluster. The broker answers, and accepts the settings of internal topics and the
        session time-out. The topics fit, no internal topic is lost, and no backfill is half done. ``state.dir`` can be
        written, if the application would start on this machine. Checkpoints can be stored, if they are configured.
        """
        check_application(self._spec, self._clients)

    def start(self, serve: bool = True, take_over: bool = False) -> None:
        """Start the application in the Ray cluster; returns when its coordinator exists, before the first record is
        processed.

        Connects to Ray unless this process is connected: to ``RAY_ADDRESS``, else to the cluster that ``ray start``
        started on this machine, else to a new one that lives as long as this process. Serves HTTP at
        ``application.server``, in an actor on this node, unless that is empty or ``serve`` is False;
        ``status().http_address`` has the address. If the application runs in another Ray cluster, the start may be
        refused; ``take_over`` ends it there instead. If this start makes a new Ray cluster, an application on this
        machine is stopped as by ``penstock stop`` (120 s at most). One with the same state directory that could not be
        stopped ends in ERROR (docs/LIFECYCLE.md).

        If it raises, nothing of the application runs, and it may be called again. Raises BrokerUnreachableError (within
        10 s), KafkaRefusedError for wrong credentials, MissingTopicError, InternalTopicError (also for an internal
        topic that is lost although offsets are committed), TopologyError, ConfigError when ``application.server``
        cannot be listened on, or not without TLS and tokens, ObjectStoreError when checkpoints cannot be stored, and
        ApplicationStateError when the application runs
        already, is closed, or a backfill of it is unfinished.
        """
        with self._life:
            if self._closed:
                raise ApplicationStateError(f"application {self.application_id!r} is closed: make a new object")
            if self._coordinator is not None:
                raise ApplicationStateError(
                    f"application {self.application_id!r} was started before: make a new object"
                )
            server = self._server() if serve and self.config.application_server else None
            settings = None if server is None else ServerSettings.of(self.config)
            self.check()
            starting.connect(self.application_id, take_over)
            control.remove_ended(self.application_id, topology=self.describe())
            self._spec = replace(self._spec, take_over=take_over)
            self._coordinator = self._start_actors(server, settings)
            if self._listener is not None:
                self._watcher = StateWatcher(self.application_id, self._listener, self.state)

    def _server(self) -> Serve | None:
        """The function that serves HTTP. There is none in ``cluster/``; ``penstock.KafkaStreams`` has one."""
        return None

    def _start_actors(self, server: Serve | None, settings: ServerSettings | None) -> Any:
        """Start the HTTP server first: a port in use is an error before anything has joined the group."""
        if server is None or settings is None:
            return starting.start_coordinator(self._spec)
        http, address = start_http(self.application_id, settings, server)
        try:
            return starting.start_coordinator(self._spec, address)
        except BaseException:
            stop_http(http)
            raise

    def state(self) -> ApplicationState:
        """The state of the application; CREATED before ``start``."""
        return self.status().state

    def status(self) -> ApplicationStatus:
        """State, actors, tasks with their lags, placement, as each stream actor last reported (``docs/LIFECYCLE.md``).

        CREATED before ``start``; after ``close`` the last one. Raises ApplicationStateError when the coordinator does
        not answer.
        """
        if self._last is not None:
            return self._last
        if self._coordinator is None:
            return self._without_actors(ApplicationState.CREATED)
        status = control.status_of(self._coordinator)
        if status is None:  # another process has stopped it and ended its coordinator
            return self._last or self._without_actors(ApplicationState.NOT_RUNNING)
        if status.state.has_ended:
            self._last = status
        return status

    def _without_actors(self, state: ApplicationState) -> ApplicationStatus:
        return ApplicationStatus(self.application_id, state, 0, (), {})

    def metrics(self) -> Mapping[MetricName, float]:
        """Kafka Streams' metrics of the whole application, as of ``status()``: ``process-total`` of group
        ``stream-task-metrics`` with its tags, and so on. A stream actor is the ``thread-id``. Mirrors ``metrics()``."""
        return metrics_of(self.status())

    def pause(self) -> None:
        """Keep all tasks from processing records and punctuating; before ``start``: from the start on. Mirrors
        ``pause`` (KIP-834).

        When it returns, every stream actor that answers has stopped processing. Records that were processed before are
        committed as usual. Tasks are assigned and restored, the group session continues, queries are answered, and the
        pause does not change the state. It holds until ``resume``, also over restarts of actors. Raises
        ApplicationStateError when the application has ended, or its coordinator does not answer.
        """
        self._pause(True)

    def resume(self) -> None:
        """Let tasks process again after ``pause``. Mirrors ``resume``; raises what ``pause`` does."""
        self._pause(False)

    def _pause(self, paused: bool) -> None:
        with self._life:
            if self._coordinator is None and not self._closed:
                self._spec = replace(self._spec, paused=paused)
                return
        self._running()
        control.pause_application(self.application_id, self._coordinator, paused)

    def is_paused(self) -> bool:
        """Returns True if it is paused, by this or by another process. Mirrors ``isPaused``."""
        return self.status().paused if self._coordinator is not None else self._spec.paused

    def wait_until_running(self, timeout_s: float = 60.0) -> None:
        """Wait until every task runs; a coordinator that Ray restarts meanwhile is waited for, too.

        Raises ApplicationStateError, with the error's text, before ``start``, and if the application ends or the time
        is over.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                status = self._running()
            except control.CoordinatorSilentError:
                if time.monotonic() >= deadline:
                    raise
            else:
                if status.state is ApplicationState.RUNNING:
                    return
                if time.monotonic() >= deadline:
                    raise control.not_yet_running(status, timeout_s)
            time.sleep(_LOOK_EACH_S)

    @override
    def _shape_of(self, store: str) -> StoreShape:
        self._running()
        if store not in (known := self.topology.store_builders):
            raise unknown_store(self.application_id, store, known)
        return StoreShape(known[store].kind, views_of(known[store]))

    def close(self, timeout_s: float | CloseOptions = 60.0) -> bool:
        """Drain, commit, and end all actors of the application, the HTTP server too. Idempotent; a second thread waits
        for the first. Before ``start`` it makes the application NOT_RUNNING; one that is in ERROR stays there. It stays
        in its consumer group, as in Kafka Streams, unless CloseOptions say that it leaves.

        Returns False if it took longer than ``timeout_s`` seconds: then the actors were ended without a commit, and
        records since their last commit are processed again at the next start (or another thread still closes it).
        """
        options = timeout_s if isinstance(timeout_s, CloseOptions) else CloseOptions(timeout_s)
        timeout_s = options.timeout_s
        deadline = time.monotonic() + timeout_s
        if not self._life.acquire(timeout=max(0.0, timeout_s)):
            return False
        try:
            drained = self._closed or self._close(deadline, options)
            self._closed = True
        finally:
            self._life.release()
        if self._watcher is not None:
            self._watcher.join(max(0.0, deadline - time.monotonic()))
        if not drained:
            logger(__name__).warning(
                "application not stopped in time, actors killed without a commit",
                application=self.application_id,
                timeout_s=timeout_s,
            )
        return drained

    def _close(self, deadline: float, options: CloseOptions) -> bool:
        if self._coordinator is None:
            self._last = self._without_actors(ApplicationState.NOT_RUNNING)
            return True
        self._end_views()
        drained, ours = True, find_coordinator(self.application_id) == self._coordinator
        if not ours:
            # Another process has ended it, and may have started it again: that one is not ours to end.
            self._last = self._last or self._without_actors(ApplicationState.NOT_RUNNING)
        elif self._last is not None:
            control.wait_until_left(self._coordinator)
            control.end_actors(self.application_id, self._coordinator)
        else:
            if self._watcher is not None:
                self._watcher.report(ApplicationState.PENDING_SHUTDOWN)
            try:
                status = control.stop_application(self.application_id, max(0.0, deadline - time.monotonic()))
            except BaseException:  # its actors are ended all the same, and the listener waits for the end
                if self._watcher is not None:
                    self._watcher.report(ApplicationState.NOT_RUNNING)
                raise
            self._last = status or self._last or self._without_actors(ApplicationState.NOT_RUNNING)
            drained = status is not None
        if ours and options.leaves:
            leave_group(self.config, deadline - time.monotonic())
        self._last = replace(self._last, http_address=None)
        if self._watcher is not None:
            self._watcher.report(self._last.state)
        return drained

    def clean_up(self) -> None:
        """Delete the application's local state below ``state.dir``, on every node of the Ray cluster that ``start``
        connects to, or of which this process is a part; without one on this machine. Changelogs restore it at the
        next start. Mirrors ``cleanUp``.

        For before ``start`` and after ``close``: raises ApplicationStateError in between, and while the application
        runs otherwise; StreamsError naming nodes where it could not be deleted.
        """
        with self._life:
            if self._coordinator is not None and not self._closed:
                raise ApplicationStateError(
                    f"application {self.application_id!r} was started and is not closed: clean_up() is for before "
                    "start() and after close()"
                )
            control.refuse_if_running(self.application_id)
            with connections.connected_as_start_would():
                local_state.clean_up(self.config.state_dir / self.application_id)

    def _running(self) -> ApplicationStatus:
        """Returns the status of an application that runs, or is about to; otherwise raises ApplicationStateError."""
        if self._coordinator is None and not self._closed:
            raise ApplicationStateError(
                f"application {self.application_id!r} is not started: call start() first. If another process has "
                f"started it, ask that one by KafkaStreams.connect({self.application_id!r})"
            )
        status = self.status()
        if not status.state.is_live:
            raise state_error(status, "it is closed: make a new object" if self._closed else STOPPED)
        return status
