"""The process of a coordinator: the production state machine and dispatcher, in place of the Ray shell around them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from penstock.actors.checkpoints.storage import CheckpointStorage
from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.commits.exactly_once import transactional_id
from penstock.actors.status import ActorStatus
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell.coordinator_actor import _BELONGING_S, ANSWER_WITHIN_S
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.first_plan import first_plan
from penstock.cluster.coordinator_shell.pausing import Pausing
from penstock.cluster.coordinator_shell.periodic_work import CHECK_ACTORS_S, CHECK_CLUSTER_S, CHECK_DRAINS_S
from penstock.cluster.environment import ActorHandle, ActorNameTakenError, CommitRefusedError, Environment, NodeAnswer
from penstock.cluster.events import ActorsWanted, ClusterResized, Event, Instruction, NoRoom
from penstock.cluster.placement.standby_assignor import standby_policy
from penstock.cluster.rollout import Rollout
from penstock.cluster.scaling.cpu_watch import CpuUsage, CpuWatch
from penstock.cluster.status import ApplicationState
from penstock.cluster.watchers.checkpoint_deletion import CheckpointDeletion
from penstock.cluster.watchers.drain_watch import DrainWatch
from penstock.cluster.wishes import Wishes
from penstock.common.errors import StreamsError
from penstock.common.ids import CommittedOffset, Offsets
from penstock.kafka.internal_topics.purger import Purger
from tests.cluster.simulated_application import QUIET
from tests.simulation.actor_process import ActorProcess
from tests.simulation.simulated_group import Member
from tests.simulation.simulated_kafka import SimulatedClients
from tests.simulation.simulated_objects import DELETE_EACH_S
from tests.simulation.simulated_ray import SimulatedActorHandle

if TYPE_CHECKING:
    from tests.simulation.world import Cluster

_PURGE_S = 30.0
_CONNECT_S = 1.0


class CoordinatorProcess(Environment):
    """One incarnation of a coordinator."""

    def __init__(self, cluster: Cluster, restarted: bool) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.rng: Random = cluster.world.rng
        self.exists = True
        self.cut_from_broker_until = 0.0
        self.dispatcher: Dispatcher | None = None
        self.member: Member | None = None
        self.state, self.error = ApplicationState.CREATED, ""
        self._restarted = restarted
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._ready = asyncio.Event()
        self.pausing = Pausing(self._keep_paused, QUIET)
        self._drains = DrainWatch(cluster.spec.application_id, self._draining_ms, lambda: self.now() * 1000)
        self._cpu_watch = CpuWatch(cluster.spec.application_id, self._cpu_usage, self.now)
        self._clients = SimulatedClients(self.world.broker, self, cluster.spec.application_id, False)
        self.spawn(self._begin())

    # ---- the place where its clients live ----

    def now(self) -> float:
        return self.world.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    @property
    def reaches_broker(self) -> bool:
        return self.world.broker.answers and self.now() >= self.cut_from_broker_until

    @property
    def begins_again(self) -> bool:
        """True until a coordinator that was restarted has heard of the actors that it found."""
        return self._restarted and not self._ready.is_set()

    def block(self, seconds: float) -> None:
        """Does nothing: a coordinator asks in other threads."""

    def portion(self, waiting: int) -> int:
        """Returns ``waiting``: a coordinator writes no records."""
        return waiting

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None and self.exists:
            self.world.broke(error)

    def feed(self, event: Event) -> None:
        if self.exists and self.dispatcher is not None:
            self.dispatcher.feed(event)

    # ---- its life ----

    async def _begin(self) -> None:
        spec = self.cluster.spec
        try:
            plan = await first_plan(spec, self._clients, self._restarted, QUIET)
        except StreamsError as error:
            self.entered(ApplicationState.ERROR, str(error))
            return
        self.pausing.begin(self.cluster.paused)
        policy = standby_policy(spec.config)
        first_epoch = self.world.clock.wall_ms()
        machine = Coordinator(
            plan.tasks,
            spec.config.tasks_per_actor,
            first_epoch,
            self.world.exactly_once,
            policy,
            self.cluster.rollout,
            self.cluster.wishes,
        )
        dispatcher = Dispatcher(machine, self, self.pausing, QUIET)
        self.dispatcher = dispatcher
        self._purger = Purger(plan.tasks.repartition_topics, self._clients.admin)
        if self.cluster.wanted is not None:
            self.feed(ActorsWanted(self.cluster.wanted))
        if self._restarted:
            await dispatcher.recover(map(SimulatedActorHandle, self.cluster.found()))
        self._ready.set()
        self.member = Member(self.world.group, self, self.cluster.name, frozenset(plan.tasks.topics))
        self.spawn(self.member.stay())
        self.spawn(self._repeat(CHECK_ACTORS_S, dispatcher.check_actors))
        self.spawn(self._repeat(CHECK_CLUSTER_S, self._check_cluster))
        self.spawn(self._repeat(CHECK_DRAINS_S, self._check_drains))
        self.spawn(self._repeat(_PURGE_S, self._purger.purge))
        if (storage := CheckpointStorage.of(self.cluster.spec.config)) is not None:
            self._deletion = CheckpointDeletion(storage, QUIET)
            self.world.processes.at_work = self
            self._deleting = self.world.processes.executor()
            self.spawn(self._repeat(DELETE_EACH_S, self._delete_checkpoints))

    async def _repeat(self, every_s: float, work: Any) -> None:
        while True:
            await work()
            await asyncio.sleep(every_s)

    async def _delete_checkpoints(self) -> None:
        machine = self.dispatcher.machine if self.dispatcher is not None else None
        if machine is None or machine.session_lost or not machine.state.is_live:
            return
        deleted = self._deleting.submit(self._deletion.delete_unneeded)
        while not deleted.done():
            await asyncio.sleep(0.5)
        deleted.result()

    async def _check_cluster(self) -> None:
        self.feed(ClusterResized(self.cluster.cpus))
        assert self.dispatcher is not None
        if self._cpu_watch.check(self.dispatcher.machine.starting) is not None:
            self.feed(NoRoom())

    def _cpu_usage(self) -> CpuUsage:
        cpus = self.cluster.cpus
        return CpuUsage(cpus, cpus - len(self.cluster.living()), ())

    async def _check_drains(self) -> None:
        if (draining := self._drains.check()) is not None:
            self.feed(draining)

    def _draining_ms(self) -> dict[str, int]:
        return {node: round(until_s * 1000) for node, until_s in self.cluster.draining.items()}

    async def _keep_paused(self, paused: bool) -> None:
        self.cluster.paused = paused

    def end(self) -> None:
        """The process dies: what it was about to do is lost, messages that are sent are not."""
        self.exists = False
        self.world.processes.end(self)
        for task in list(self._tasks):
            task.cancel()
        if self.dispatcher is not None:
            self.dispatcher.close()

    async def take_commit(self, request: CommitRequest) -> CommitAnswer | None:
        """Answers a commit as the shell does; None if there is no answer in time."""
        try:
            return await asyncio.wait_for(self._answer_to(request), ANSWER_WITHIN_S)
        except TimeoutError:
            return None

    async def _answer_to(self, request: CommitRequest) -> CommitAnswer:
        await self._ready.wait()
        assert self.dispatcher is not None
        return await self.dispatcher.commit(request)

    async def has_actor(self, actor_id: str) -> bool:
        """Returns True if the actor belongs to it or, as the shell does, if it is not ready in time."""
        try:
            await asyncio.wait_for(self._ready.wait(), _BELONGING_S)
        except TimeoutError:
            return True
        return self.dispatcher is not None and actor_id in self.dispatcher.handles

    # ---- the environment of its dispatcher ----

    @override
    def create_actor(self, actor_id: str, generation: int, node: str, avoid: frozenset[str]) -> ActorHandle:
        if (old := self.cluster.actors.get(actor_id)) is not None and old.exists:
            raise ActorNameTakenError(actor_id)
        process = ActorProcess(self.cluster, actor_id, self.cluster.choose_node(node), generation)
        self.cluster.actors[actor_id] = process
        return SimulatedActorHandle(process)

    @override
    async def commit(self, offsets: Offsets) -> None:
        if self.member is None:
            raise CommitRefusedError("the coordinator is not a member of the group yet")
        await self.member.commit(offsets)
        self._purger.committed(offsets)

    @override
    async def fence(self, slot: int) -> None:
        name = transactional_id(self.cluster.spec.application_id, self.cluster.name, slot)
        with closing(self._clients.transactional_producer(name)) as producer:
            await asyncio.wrap_future(producer.init_transactions())

    @override
    async def node(self, node_id: str) -> NodeAnswer:
        if self.cluster.reaches_node(node_id):
            await asyncio.sleep(self.rng.uniform(0.001, 0.05))
            return NodeAnswer.ANSWERS
        await asyncio.sleep(_CONNECT_S)
        return NodeAnswer.UNREACHABLE

    @override
    def reported(self, status: ActorStatus) -> None:
        for task in status.tasks:
            self._purger.committed({tp: CommittedOffset(offset, "") for tp, offset in task.committed.items()})

    @override
    def decided(self, event: Event, instructions: Sequence[Instruction]) -> None:
        """Does nothing: the cluster keeps no history."""

    @override
    def wished(self, wishes: Wishes) -> None:
        self.cluster.wishes = wishes

    @override
    def rolled_out(self, rollout: Rollout) -> None:
        self.cluster.rollout, self.cluster.rolled_out_s = rollout, self.now()
        self.world.note(f"{self.cluster.name}: version {rollout.generation} is {rollout.phase.value} {rollout.reason}")

    @override
    def entered(self, state: ApplicationState, error: str | None) -> None:
        self.state, self.error = state, error or ""
        self.world.note(f"{self.cluster.name} is {state.value} {self.error}")
        if state is ApplicationState.ERROR:
            self.world.violation(f"the application is in ERROR: {error}")
