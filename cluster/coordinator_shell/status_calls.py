"""The calls that ask a coordinator for the status of its application, and the work that keeps it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from penstock.actors.spec import ApplicationSpec
from penstock.actors.status import ActorStatus
from penstock.cluster.application_metadata import ApplicationMetadata
from penstock.cluster.coordinator_shell.conditions import health_of, waits_for
from penstock.cluster.coordinator_shell.deployments import Deployments
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.known_http import KnownHttp
from penstock.cluster.coordinator_shell.metadata import metadata_of
from penstock.cluster.coordinator_shell.pausing import Pausing
from penstock.cluster.coordinator_shell.periodic_work import PeriodicWork
from penstock.cluster.coordinator_shell.ray_metrics import RayMetrics
from penstock.cluster.found_partitioners import partitioners_of
from penstock.cluster.health import UNKNOWN
from penstock.cluster.history.history import History
from penstock.cluster.queries.metrics import metric_families
from penstock.cluster.scaling.scaling_watch import ScalingWatch
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.cluster.watchers.broker_watch import BrokerWatch
from penstock.common.log import KEPT


class StatusCalls:
    """A part of the coordinator's Ray actor. Its calls change nothing."""

    _application_id: str
    _broker_watch: BrokerWatch | None
    _deployments: Deployments
    _dispatcher: Dispatcher | None
    _error: str | None
    _history: History | None
    _http: KnownHttp
    _pausing: Pausing
    _periodic: PeriodicWork | None
    _ray_metrics: RayMetrics
    _restarted: bool
    _scaling: ScalingWatch | None
    _spec: ApplicationSpec | None
    _state: ApplicationState

    async def status(self) -> ApplicationStatus:
        """Returns state, actors as last seen, placement."""
        it = self._dispatcher
        status = ApplicationStatus(
            application_id=self._application_id,
            state=self._state,
            epoch=it.machine.epoch if it else 0,
            actors=self._actors(),
            placement=it.machine.placement if it else {},
            http_address=self._http.address,
            error=self._error,
            waiting=None
            if self._state.has_ended
            else waits_for(it, self._periodic, self._no_broker(), self._restarted),
            paused=self._pausing.paused,
            has_just_resumed=self._pausing.has_just_resumed,
            stuck=self._periodic.stuck if self._periodic is not None and not self._state.has_ended else (),
            scaling=self._scaling.status if self._scaling is not None else None,
            unhosted=it.machine.unhosted if it and not self._state.has_ended else {},
            silent=it.machine.silent if it and not self._state.has_ended else frozenset(),
            rollout=self._deployments.rollout,
            moving=it.machine.moving if it and not self._state.has_ended else {},
            missing_topic=self._periodic.missing_topic if self._periodic and not self._state.has_ended else None,
            health=UNKNOWN if self._state.has_ended else health_of(it, self._periodic, self._no_broker() is not None),
        )
        return status if self._history is None else replace(status, since=self._history.since(status))

    def _actors(self) -> tuple[ActorStatus, ...]:
        statuses = self._dispatcher.statuses if self._dispatcher is not None else ()
        return statuses if self._periodic is None else self._periodic.ends.applied(statuses)

    def _no_broker(self) -> str | None:
        return self._broker_watch.reason if self._broker_watch is not None else None

    async def metadata(self) -> ApplicationMetadata:
        """Returns the tasks that have the keys of each store."""
        if self._dispatcher is None or self._spec is None:
            return ApplicationMetadata(self._application_id, 0, {}, {}, {})
        it = self._dispatcher
        return metadata_of(self._deployments.spec, it.machine, it.handles, partitioners_of(it.statuses))

    async def _take_sample(self) -> None:
        it, history = self._dispatcher, self._history
        if it is None or history is None:
            return
        history.logged(KEPT.give(times=1))
        status = await self.status()  # the history notes its findings
        if history.is_due:
            history.sample(status, it.machine.plan.partitions)

    async def _publish_metrics(self) -> None:
        families = metric_families(await self.status())
        await asyncio.to_thread(self._ray_metrics.publish, families)
