"""The environment of the coordinator's dispatcher: stream actors, a consumer group, and messages that get lost.

Every message takes its time, may be delivered twice, and stays under way although the coordinator that sent it is gone.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.status import ActorStatus
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.pausing import Pausing
from penstock.cluster.environment import ActorHandle, ActorNameTakenError, CommitRefusedError, NodeAnswer
from penstock.cluster.events import (
    ActorsWanted,
    ClusterResized,
    Event,
    GroupAssigned,
    Instruction,
    NodesDraining,
    NoRoom,
    TasksPlanned,
)
from penstock.cluster.history.history import History
from penstock.cluster.placement.standby_assignor import StandbyPolicy
from penstock.cluster.rollout import Rollout, RolloutPhase
from penstock.cluster.scaling.cpu_watch import START_S
from penstock.cluster.status import ApplicationState
from penstock.cluster.wishes import NO_WISHES, Wishes
from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import Offsets, TopicPartition
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan
from tests.cluster.simulated_actor import SimulatedActor, SimulatedHandle

LONGEST_DELAY_S = 3.0
CALL_AGAIN_S = 2.0
LOOK_S = 0.5
LOOK_NODES_S = 2.0
QUIET: Any = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class SimulatedApplication:
    """One application on one cluster. Everything follows from ``seed``."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._node_rng = random.Random(seed)
        self.counts = {f"t{sub}": self.rng.randint(1, 5) for sub in range(self.rng.randint(1, 3))}
        self.beside = {f"s{sub}": self.rng.randint(1, 4) for sub in range(len(self.counts))}
        self.commit_each_s = (0.5, 3.0)
        self.tasks_per_actor = self.rng.choice([None, None, 1, 2])
        self.standby_policy = StandbyPolicy(self.rng.randint(0, 2), self.rng.randint(1, 2))
        self.in_memory = self.rng.random() < 0.3
        self.cpus = 2
        self.wanted: int | None = None
        self.nodes = [f"node {number}" for number in range(self.rng.choice([1, 1, 2, 3]))]
        self.draining: dict[str, float] = {}
        """The time at which each of these nodes is gone; infinite: when nothing runs there any more."""
        self.full = False
        """True if no node has room for another actor."""
        self.room = math.inf
        """Number of actors for which there is a CPU."""
        self.cut_short = 0
        """Number of actors that still ran when their node went."""
        self.share = 1.0
        self.assigned: frozenset[TopicPartition] = self.plan.reads
        self.actors: dict[str, SimulatedActor] = {}
        self.moves = self.promoted = self.rebalances = 0
        self.incarnation = 0
        self.dispatcher: Dispatcher | None = None
        self._begun: Dispatcher | None = None
        self.state = ApplicationState.CREATED
        self.error: str | None = None
        self.calm = False
        self.kept_paused = False
        self.rollout = Rollout()
        """The values that Ray keeps for a restarted coordinator."""
        self.wishes = NO_WISHES
        self.moves_wanted = 0
        """Number of moves that users have asked for, and that were not refused."""
        self.restarted_actors: set[SimulatedActor] = set()
        self.phases: set[RolloutPhase] = set()
        self.bad: set[int] = set()
        """Versions of the program that fail when their tasks run."""
        self.broker_away = False
        self.member_lost = False
        self.refused_for_good = False
        self.unanswered = 0
        self.committed: set[tuple[int, str, int]] = set()
        self.begun: dict[int, int] = {}
        """For each position to be committed: the epoch under which the eldest of its tasks was begun."""
        self.lost_epoch = 0
        self.calls = {"accepted": 0, "refused": 0, "repeated": 0}
        self.violation: BaseException | None = None
        """The error of an event that must never happen, and did."""
        self._position = 0
        self._here = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._periodic_tasks: list[asyncio.Task[None]] = []

    @property
    def plan(self) -> TaskPlan:
        """The plan for Kafka's topics as they are now."""
        return TaskPlan(
            tuple(
                SubtopologyTasks(
                    number,
                    {topic: count, beside: self.beside[beside]},
                    stateful=number % 2 == 0,
                    logged=number % 2 == 0,
                    in_memory=number % 2 == 0 and self.in_memory,
                )
                for number, ((topic, count), beside) in enumerate(zip(self.counts.items(), self.beside, strict=True))
            )
        )

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, StreamsError):
            self.violation = self.violation or error

    async def pause(self) -> None:
        await asyncio.sleep(self.rng.uniform(0, LONGEST_DELAY_S if not self.calm else 0.1))

    def next_position(self) -> int:
        self._position += 1
        return self._position

    def check(self) -> None:
        held = [task for actor in self.actors.values() if actor.alive for task in actor.tasks]
        assert len(held) == len(set(held)), "two actors hold one task"

    # ---- the environment of the dispatcher ----

    def create_actor(self, actor_id: str, generation: int, node: str, avoid: frozenset[str]) -> ActorHandle:
        old = self.actors.get(actor_id)
        if old is not None and (old.alive or self.rng.random() < 0.5):
            raise ActorNameTakenError(actor_id)
        self.actors[actor_id] = self._actor(actor_id, generation)
        return SimulatedHandle(self.actors[actor_id])

    def _actor(self, actor_id: str, generation: int) -> SimulatedActor:
        return SimulatedActor(self, actor_id, generation)

    async def a_cpu_is_free(self, actor: SimulatedActor) -> None:
        await self.pause()
        while actor.alive and not self.calm and sum(it.alive and it.up for it in self.actors.values()) >= 6:
            await self.pause()
        while actor.alive and (self.full or sum(it.alive and it.up for it in self.actors.values()) >= self.room):
            await self.pause()
        actor.node = self._node_rng.choice([node for node in self.nodes if node not in self.draining])

    async def commit(self, offsets: Offsets) -> None:
        # When the dispatcher lets Kafka commit, the actor that asked must be the only one with these partitions.
        incarnation = self.incarnation
        positions = {(tp, committed.offset) for tp, committed in offsets.items()}
        if not self.member_lost:
            assert offsets.keys() <= self.assigned_told
        assert all(self.begun[offset] > self.lost_epoch for _, offset in positions), "begun under a lost session"
        await self.pause()
        if incarnation != self.incarnation:
            raise BrokerUnreachableError("its member is gone")
        if self.member_lost:
            raise CommitRefusedError("the coordinator has left the group")
        if self.refused_for_good:
            raise CommitRefusedError("Group authorization failed")
        if self.broker_away or (not self.calm and self.rng.random() < 0.15):
            raise self.rng.choice(
                [BrokerUnreachableError("no broker answers"), StreamsError("the generation has passed")]
            )
        self.committed |= {(self.incarnation, str(tp), offset) for tp, offset in positions}

    async def fence(self, slot: int) -> None:
        raise AssertionError("nobody is fenced at least once")

    async def node(self, node_id: str) -> NodeAnswer:
        await self.pause()
        alive = any(actor.alive for actor in self.actors.values() if actor.node == node_id)
        return NodeAnswer.ANSWERS if alive else NodeAnswer.REFUSES

    def decided(self, event: Event, instructions: Sequence[Instruction]) -> None:
        self.history.decided(event, instructions)

    def reported(self, status: ActorStatus) -> None:
        self.history.reported(status)

    def entered(self, state: ApplicationState, error: str | None) -> None:
        self.state, self.error = state, error

    def rolled_out(self, rollout: Rollout) -> None:
        self.rollout = rollout
        self.phases.add(rollout.phase)

    def wished(self, wishes: Wishes) -> None:
        self.wishes = wishes

    # ---- the coordinator's process ----

    async def start_coordinator(self) -> None:
        """Starts a new incarnation; what the one before it had under way continues."""
        self.incarnation += 1
        mine = self.incarnation
        self.state, self.error = ApplicationState.CREATED, None
        self.lost_epoch = 0  # it does not know of it
        pausing = Pausing(self._keep_paused, QUIET)
        pausing.begin(self.kept_paused)
        self.pausing = pausing
        machine, clock = self._machine(first_epoch=1_000_000 * mine), asyncio.get_running_loop().time
        self.history = History(machine, lambda: round(clock() * 1000), restarted=mine > 1)
        dispatcher = Dispatcher(machine, self, pausing, QUIET)
        self._begun = dispatcher
        found = [SimulatedHandle(actor) for actor in self.actors.values() if actor.alive]
        if mine > 1:
            await dispatcher.recover(found)
        if mine != self.incarnation:
            return  # restarted while it asked the living
        self.assigned_told: frozenset[TopicPartition] = self.plan.reads
        self.dispatcher = dispatcher
        self._here.set()
        self._periodic_tasks = [self.spawn(it) for it in self._periodic()]

    def _periodic(self) -> list[Coroutine[Any, Any, None]]:
        work = [self._check_actors(), self._check_topics(), self._check_nodes(), self._tell()]
        return work if self.room == math.inf else [*work, self._check_room()]

    async def _keep_paused(self, paused: bool) -> None:
        await self.pause()
        self.kept_paused = paused

    def _machine(self, first_epoch: int) -> Coordinator:
        return Coordinator(
            self.plan, self.tasks_per_actor, first_epoch,
            standby_policy=self.standby_policy, rollout=self.rollout, wishes=self.wishes,
        )  # fmt: skip

    def end_coordinator(self) -> None:
        """Lets the coordinator's process die: calls under way are lost, messages sent are not."""
        for task in self._periodic_tasks:
            task.cancel()
        self._here.clear()
        if self._begun is not None:
            self._begun.close()
        self.dispatcher = self._begun = None
        self.incarnation += 1

    async def _tell(self) -> None:
        assert self.dispatcher is not None
        if self.wanted is not None:
            self.dispatcher.feed(ActorsWanted(self.wanted))
        for tell in self.rng.sample([self._tell_cpus, self._tell_group], 2):
            await self.pause()
            tell()

    def _tell_cpus(self) -> None:
        if self.dispatcher is not None:
            self.dispatcher.feed(ClusterResized(self.cpus))

    def _tell_group(self) -> None:
        if self.dispatcher is not None:
            self.assigned_told = self.assigned
            self.dispatcher.feed(GroupAssigned(self.assigned))

    async def _check_actors(self) -> None:
        while self.dispatcher is not None:
            await self.dispatcher.check_actors()
            await asyncio.sleep(LOOK_S)

    async def _check_nodes(self) -> None:
        reported: set[str] = set()
        while self.dispatcher is not None:
            if self.draining or reported:
                now_s, reported = asyncio.get_running_loop().time(), set(self.draining)
                left = {node: None if gone_s == math.inf else gone_s - now_s for node, gone_s in self.draining.items()}
                self.dispatcher.feed(NodesDraining(left))
            await asyncio.sleep(LOOK_NODES_S)

    async def _check_room(self) -> None:
        """Reports a lack of CPUs, as ``CpuWatch`` does."""
        since: dict[str, float] = {}
        while self.dispatcher is not None:
            now_s = asyncio.get_running_loop().time()
            since = {name: since.get(name, now_s) for name in self.dispatcher.machine.starting}
            late = any(now_s - then_s >= START_S for then_s in since.values())
            if late and sum(it.alive and it.up for it in self.actors.values()) >= self.room:
                self.dispatcher.feed(NoRoom())
            await asyncio.sleep(5.0)

    async def _check_topics(self) -> None:
        while self.dispatcher is not None:
            if self.dispatcher.machine.unplanned or self.rng.random() < 0.05:
                await self.pause()
                self.dispatcher.feed(TasksPlanned(self.plan))
            await asyncio.sleep(1.0)

    # ---- a stream actor's commit ----

    async def ask_to_commit(self, request: CommitRequest) -> CommitAnswer:
        """Asks again until there is an answer, as ``StreamActor._commit`` does."""
        calls: set[asyncio.Task[CommitAnswer | None]] = set()
        self.unanswered += 1
        try:
            while True:
                calls.add(self.spawn(self._call_coordinator(request)))
                await asyncio.wait(calls, timeout=CALL_AGAIN_S, return_when=asyncio.FIRST_COMPLETED)
                for call in [call for call in calls if call.done()]:
                    calls.remove(call)
                    if (answer := call.result()) is not None:
                        return self._heard(request, answer)
                self.calls["repeated"] += 1
        finally:
            self.unanswered -= 1

    def _heard(self, request: CommitRequest, answer: CommitAnswer) -> CommitAnswer:
        self.calls["accepted" if answer.accepted else "refused"] += 1
        mine = {(self.incarnation, str(tp), offset) for tp, (offset, _) in request.offsets.items()}
        # Only another incarnation may not know what Kafka has.
        assert answer.accepted or self.dispatcher is None or not mine & self.committed, "Kafka has what was refused"
        return answer

    async def _call_coordinator(self, request: CommitRequest) -> CommitAnswer | None:
        """Returns None if the call or its answer is lost on the way, or the coordinator dies meanwhile."""
        await self.pause()
        await self._here.wait()
        incarnation, dispatcher = self.incarnation, self.dispatcher
        if dispatcher is None:
            return None
        answer = await dispatcher.commit(request)
        if incarnation != self.incarnation or (not self.calm and self.rng.random() < 0.1):
            return None
        return answer
