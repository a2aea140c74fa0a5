"""Repeats checks as long as a coordinator works."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

from structlog.stdlib import BoundLogger

from penstock.actors.checkpoints.storage import CheckpointStorage
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.membership import Membership
from penstock.cluster.coordinator_shell.pausing import Pausing
from penstock.cluster.events import ApplicationFailed, ClusterResized, NoRoom, TasksHeld, TasksPlanned
from penstock.cluster.missing_brokers import NONE_MISSING, BrokerLosses
from penstock.cluster.rollout import Hold
from penstock.cluster.scaling.cpu_watch import CpuWatch
from penstock.cluster.scaling.ray_cpus import cluster_cpus, cpu_usage, cpus_of_nodes, node_labels
from penstock.cluster.scaling.scaling_watch import ScalingWatch
from penstock.cluster.status import StuckTask
from penstock.cluster.topic_reading.sources import topic_uses
from penstock.cluster.watchers.checkpoint_deletion import DELETE_EACH_S, CheckpointDeletion
from penstock.cluster.watchers.drain_watch import DrainWatch, draining_nodes
from penstock.cluster.watchers.missing_broker_watch import MissingBrokerWatch
from penstock.cluster.watchers.newest_ends import NewestEnds
from penstock.cluster.watchers.stuck_task_watch import LOOK_EVERY_S, StuckTaskWatch
from penstock.cluster.watchers.topic_watch import TopicWatch
from penstock.common.errors import (
    BrokerUnreachableError,
    InternalTopicError,
    KafkaRefusedError,
    StreamsError,
    TopologyError,
)
from penstock.kafka.clients import KafkaClients

_TOPICS = "check source topics"
_BROKERS = "look for missing brokers"
CHECK_ACTORS_S = 0.5
CHECK_CLUSTER_S = 5.0
CHECK_DRAINS_S = 2.0
_CHECK_LOAD_S = 1.0
_CHECK_TOPICS_S = 1.0
_CHECK_BROKERS_S = 5.0
_CHECK_ENDS_S = 2.0


class Work(NamedTuple):
    """Work that is repeated, and the seconds between."""

    every_s: float
    what: str
    do: Callable[[], Coroutine[Any, Any, None]]


async def repeat(work: Work, log: BoundLogger) -> None:
    """Do the work again and again, with a pause between; errors are logged."""
    while True:
        try:
            await work.do()
        except Exception as error:  # the next time may be better, and nothing else must end with it
            log.error("periodic work failed, retrying", what=work.what, exc_info=error)
        await asyncio.sleep(work.every_s)


class PeriodicWork:
    """Checks of a coordinator, whose results go to its dispatcher; everything runs in its event loop."""

    def __init__(
        self,
        spec: ApplicationSpec,
        clients: KafkaClients,
        dispatcher: Dispatcher,
        membership: Membership,
        scaling: ScalingWatch,
        pausing: Pausing,
        failed_by: Callable[[BaseException], ApplicationFailed],
        broker_is_away: Callable[[], bool],
        program: Callable[[], ApplicationSpec],
        log: BoundLogger,
    ) -> None:
        """``failed_by`` is called in another thread. Outages of the broker are reported elsewhere. ``program``: returns
        the version that runs."""
        clock = asyncio.get_running_loop().time
        self.waits_for_cpu: str | None = None
        """The notice to users of the applications that have the CPUs that actors wait for."""
        self._hold: Hold | None = None
        self._dispatcher = dispatcher
        self._membership = membership
        self._scaling = scaling
        self._pausing = pausing
        self._failed_by = failed_by
        self._broker_is_away = broker_is_away
        self._log = log
        self._cpus = CpuWatch(spec.application_id, cpu_usage, clock)
        self._drains = DrainWatch(spec.application_id, draining_nodes, lambda: time.time() * 1000)
        self._brokers = MissingBrokerWatch(spec.application_id, clients.admin, lambda: time.time_ns() // 1_000_000)
        self.ends = NewestEnds(clients.admin)
        """The ends of partitions that have lag."""
        self._program = program
        self._topics_of: tuple[ApplicationSpec | None, frozenset[str]] = None, frozenset()
        self._stuck = StuckTaskWatch(spec.config, clock, log)
        self._topics = TopicWatch(spec.topology, spec.config, clients.admin, clock)
        storage = CheckpointStorage.of(spec.config)
        self._checkpoints = None if storage is None else CheckpointDeletion(storage, log)

    def all(self) -> list[Work]:
        """Returns what must be repeated."""
        return [
            Work(CHECK_ACTORS_S, "check actors", self._dispatcher.check_actors),
            Work(CHECK_ACTORS_S, "check if tasks process", self._check_holds),
            Work(CHECK_CLUSTER_S, "check the Ray cluster", self._check_cluster),
            Work(CHECK_DRAINS_S, "check for drained nodes", self._check_drains),
            Work(_CHECK_LOAD_S, "look at the load", self._scaling.look),
            Work(_CHECK_TOPICS_S, _TOPICS, self._check_topics),
            Work(_CHECK_BROKERS_S, _BROKERS, self._check_brokers),
            Work(_CHECK_ENDS_S, "look for the ends of partitions", self._check_ends),
            Work(LOOK_EVERY_S, "look for stuck tasks", self._look_for_stuck_tasks),
            Work(DELETE_EACH_S, "delete old checkpoints", self._delete_checkpoints),
        ]

    @property
    def stuck(self) -> tuple[StuckTask, ...]:
        """Tasks that make no progress although they have something to do."""
        return self._stuck.stuck

    @property
    def waiting_for_cpus(self) -> int:
        """The stream actors that do not start because no CPU is free."""
        return self._cpus.waiting

    @property
    def other_members(self) -> str | None:
        """The notice to users about members of the group that keep this one out; None if none do."""
        return self._membership.waits_for

    @property
    def missing_topic(self) -> str | None:
        """The notice to users of the source topic that is gone, and of the consequences."""
        return self._topics.missing

    @property
    def losses(self) -> BrokerLosses:
        """The brokers that are away while others answer; none while no broker answers, which is reported elsewhere."""
        return NONE_MISSING if self._broker_is_away() else self._brokers.losses

    async def _check_cluster(self) -> None:
        cpus, labels, cpus_of = await asyncio.to_thread(lambda: (cluster_cpus(), node_labels(), cpus_of_nodes()))
        await self._scaling.cluster_has(cpus)
        self._dispatcher.feed(ClusterResized(cpus, labels, cpus_of))
        self.waits_for_cpu = await asyncio.to_thread(self._cpus.check, self._dispatcher.machine.starting)
        if self.waits_for_cpu is not None:
            self._dispatcher.feed(NoRoom())

    async def _check_holds(self) -> None:
        by = Hold.PAUSED if self._pausing.paused else Hold.NO_BROKER if self._broker_is_away() else None
        if by is not self._hold:
            self._hold = by
            self._dispatcher.feed(TasksHeld(by))

    async def _check_drains(self) -> None:
        if (draining := await asyncio.to_thread(self._drains.check)) is not None:
            self._dispatcher.feed(draining)

    async def _look_for_stuck_tasks(self) -> None:
        self._stuck.look(self._dispatcher.statuses, self._is_member and not self._pausing.paused)

    @property
    def _is_member(self) -> bool:
        machine = self._dispatcher.machine
        return machine.state.is_live and not machine.session_lost

    async def _delete_checkpoints(self) -> None:
        if self._checkpoints is not None and self._is_member:
            await asyncio.to_thread(self._checkpoints.delete_unneeded)

    async def _check_brokers(self) -> None:
        try:
            await asyncio.to_thread(self._look_for_brokers, frozenset(self._dispatcher.machine.plan.topics))
        except StreamsError as error:
            if not isinstance(error, BrokerUnreachableError | KafkaRefusedError):
                self._log.warning("periodic work failed, retrying", what=_BROKERS, error=str(error))

    async def _check_ends(self) -> None:
        with suppress(StreamsError):  # the lags are those that the actors know then; others report what Kafka lacks
            await asyncio.to_thread(self.ends.check, self._dispatcher.statuses)

    def _look_for_brokers(self, sources: frozenset[str]) -> None:
        spec, known = self._program(), self._topics_of
        if known[0] is not spec:
            known = self._topics_of = spec, frozenset(topic_uses(spec))
        self._brokers.check(known[1] | sources)

    async def _check_topics(self) -> None:
        """Plan again if a source topic has changed."""
        machine = self._dispatcher.machine
        if not self._topics.due(bool(machine.unplanned), machine.orphaned):
            return
        try:
            plan = await asyncio.to_thread(self._topics.check, machine.plan)
        except (InternalTopicError, TopologyError) as error:
            self._dispatcher.feed(await asyncio.to_thread(self._failed_by, error))
        except StreamsError as error:
            if not (isinstance(error, BrokerUnreachableError | KafkaRefusedError) and self._broker_is_away()):
                self._log.warning("periodic work failed, retrying", what=_TOPICS, error=str(error))
        else:
            if plan is not None:
                self._log.info("source topics changed", tasks=len(plan.partitions))
                self._membership.subscribe(plan.topics)
                self._dispatcher.feed(TasksPlanned(plan))
