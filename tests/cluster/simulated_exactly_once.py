"""The simulated world under ``exactly_once_v2``: transactions, their fences, and processes that live on unseen.

The broker keeps one offset per partition. A transaction moves it from where its actor's task began to read to where
the task has come: if it is elsewhere by then, a record is lost or counts twice. The broker must never let this happen,
and it knows nothing of tasks: only the epoch of a ``transactional.id``, and the group's present member.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from typing import cast

from typing_extensions import override

from penstock.actors.commit_messages import CommitRequest
from penstock.actors.status import ActorStatus
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.events import GroupAssigned
from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import Sources, TaskId, TopicPartition
from tests.cluster.simulated_actor import SimulatedActor
from tests.cluster.simulated_world import World

_GHOST_S = 30.0
_LOOKS_EACH_S = 0.02


class AbortedError(StreamsError):
    """The broker refuses a transaction; ``fenced``: another has the id."""

    def __init__(self, what: str, fenced: bool = False) -> None:
        super().__init__(what)
        self.fenced = fenced


class TransactionalActor(SimulatedActor):
    """Takes the id of its slot, processes, and commits itself, having asked the coordinator once."""

    def __init__(self, world: ExactlyOnceWorld, name: str, generation: int) -> None:
        super().__init__(world, name, generation)
        self.kafka = world
        self.slot = self.producer_epoch = 0
        self.exists = True
        """Its process lives, whatever Ray says of it."""
        self.group_metadata: bytes | None = None
        self._opening = asyncio.Lock()
        self._assigning = 0
        self._another_job: asyncio.Future[None] | None = None
        self.begun_at: dict[TopicPartition, int] = {}
        self.position: dict[TopicPartition, int] = {}

    @override
    async def start(self, slot: int) -> str:
        self.slot = slot
        await self._take_id()
        return await super().start(slot)

    async def _take_id(self) -> None:
        await self.kafka.reach()
        self.producer_epoch = self.kafka.take_id(self.slot)

    @override
    def status(self) -> ActorStatus:
        return dataclasses.replace(super().status(), slot=self.slot)

    @override
    def kill(self) -> None:
        if not self.alive:
            return  # an actor that is cut off is out of Ray's reach
        if not self.world.calm and self.world.rng.random() < 0.7:
            # Its node is cut off from Ray, not from Kafka.
            self.alive = False
            self.died.set_result(None)
            self.world.spawn(self._end_later())
        else:
            super().kill()
            self.exists = False

    async def _end_later(self) -> None:
        await asyncio.sleep(self.world.rng.uniform(0, _GHOST_S))
        self.exists = False
        if self._loop_task is not None:
            self._loop_task.cancel()

    @override
    def _wake(self) -> None:
        super()._wake()
        if self._jobs and self._another_job is not None and not self._another_job.done():
            self._another_job.set_result(None)

    @override
    async def _assignment(self, epoch: int, sources: Sources, standbys: Sources) -> None:
        self._assigning += 1
        await super()._assignment(epoch, sources, standbys)
        self._assigning -= 1
        self.world.spawn(self._restore(TaskId(0, 0)))

    @override
    async def _restore(self, task: TaskId) -> None:
        async with self._opening:
            await self._begin()

    async def _begin(self) -> None:
        """Finds out where tasks that do not run yet continue. If another assignment waits, that one does it."""
        if await self._find_group_metadata():
            await self._read_offsets([task for task in self.tasks if task not in self.running])
            self.running.update(self.tasks)
            if self.running:
                self.run_program()

    async def _find_group_metadata(self) -> bool:
        """Before any offset is read: as which member of the group the actor may commit."""
        if self.group_metadata is None and self.tasks:
            self._number += 1
            asked = self.world.spawn(self.world.ask_to_commit(CommitRequest(self.name, self.epoch, {}, self._number)))
            self._another_job = asyncio.get_running_loop().create_future()
            if not (self._jobs or self._assigning or self.stopping):
                await asyncio.wait({asked, self._another_job}, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(_LOOKS_EACH_S * self.world.rng.random())  # either may come before it looks
            if not asked.done():
                return False
            if not asked.result().accepted:
                self._drop(list(self.tasks))
                return False
            self.group_metadata = asked.result().group_metadata
        return True

    async def _read_offsets(self, tasks: list[TaskId]) -> None:
        await self.kafka.reach()
        for partition in {partition for task in tasks for partition in self.tasks.get(task, ())}:
            self.begun_at[partition] = self.position[partition] = self.kafka.offsets[partition]

    @override
    async def _commit(self, tasks: list[TaskId]) -> None:
        async with self._opening:
            await self._commit_all()

    async def _commit_all(self) -> None:
        mine = [task for task in self.tasks if task in self.running]
        partitions = {partition for task in mine for partition in self.tasks[task]}
        for partition in partitions:
            self.position[partition] += self.world.rng.randrange(3)
        work = {at: self.position[at] for at in partitions if self.position[at] > self.begun_at[at]}
        group_metadata = self.group_metadata
        if not work or group_metadata is None:
            return
        await self.world.pause()
        if not self.exists:
            return
        try:
            self.kafka.commit_transaction(self, group_metadata, work)
        except AbortedError as error:
            await self._go_back(error.fenced)
        else:
            self.begun_at.update(work)

    async def _go_back(self, fenced: bool) -> None:
        self.group_metadata = None
        if fenced:
            await self._take_id()
        self.running.clear()
        await self._begin()


class ExactlyOnceWorld(World):
    """Beside what befalls any world: other clusters work on the partitions that the group does not give to us."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.nodes = ["node 0"]
        self.commit_each_s = (0.1, 0.5)
        self.offsets: Counter[TopicPartition] = Counter()
        self.outcomes: Counter[str] = Counter()
        self._epochs: Counter[int] = Counter()
        self._member = b""
        self._generation = 0

    @override
    async def pause(self) -> None:
        # Short beside the time between two faults: most transactions are to get somewhere.
        await asyncio.sleep(self.rng.uniform(0, 0.1 if self.calm else 0.6))

    # ---- the broker ----

    async def reach(self) -> None:
        """Returns when it answers."""
        await self.pause()
        while self.broker_away:
            await self.pause()

    def take_id(self, slot: int) -> int:
        """Returns the next epoch of the slot's ``transactional.id``: its last owner is fenced."""
        self._epochs[slot] += 1
        return self._epochs[slot]

    def commit_transaction(
        self, actor: TransactionalActor, group_metadata: bytes, work: dict[TopicPartition, int]
    ) -> None:
        """Move the offsets, or refuse."""
        if actor.producer_epoch != self._epochs[actor.slot]:
            self.outcomes["fenced"] += 1
            raise AbortedError("fenced", fenced=True)
        if group_metadata != self._member:
            self.outcomes["another member"] += 1
            raise AbortedError("the generation has passed")
        lost = self.broker_away or (not self.calm and self.rng.random() < 0.1)
        if lost and self.rng.random() < 0.5:
            self.outcomes["not heard of"] += 1
            raise AbortedError("nobody answers", fenced=True)  # the producer is spent
        if others := sorted(work.keys() - self.assigned):
            self.violation = self.violation or AssertionError(f"{actor.name} commits {others[0]}, which others work on")
        for at, to in work.items():
            if self.offsets[at] != actor.begun_at[at]:
                self.violation = self.violation or AssertionError(
                    f"{actor.name} commits {at} from {actor.begun_at[at]}, and it stands at {self.offsets[at]}"
                )
            self.offsets[at] = to
        self.outcomes["committed" if actor.alive else "committed by a ghost"] += 1
        if lost:
            raise AbortedError("committed, but the answer is lost", fenced=True)

    # ---- the environment of the dispatcher ----

    @override
    def _machine(self, first_epoch: int) -> Coordinator:
        return Coordinator(
            self.plan, self.tasks_per_actor, first_epoch, True, self.standby_policy, self.rollout, self.wishes
        )

    @override
    def _actor(self, actor_id: str, generation: int) -> SimulatedActor:
        return TransactionalActor(self, actor_id, generation)

    @override
    async def fence(self, slot: int) -> None:
        await self.pause()
        if self.broker_away or (not self.calm and self.rng.random() < 0.2):
            raise BrokerUnreachableError("no broker answers")
        self.take_id(slot)

    def lose_and_shrink(self) -> None:
        """No other takes the place, and the slot, of the one that is lost: the rest must take its tasks."""
        self.resize(max(1, sum(actor.alive for actor in self.actors.values()) - 1))
        self.lose_an_actor()

    def broker_back(self) -> None:
        """It answers."""
        self.broker_away = False

    # ---- the group ----

    @override
    def regroup(self, share: float | None = None) -> None:
        self.share = self.rng.random() if share is None else share
        self.assigned = frozenset(p for p in sorted(self.plan.reads) if self.rng.random() < self.share)
        self._next_generation()
        self.spawn(self._tell_group_later())

    @override
    def lose_session(self) -> None:
        self._next_generation()
        super().lose_session()

    def _next_generation(self) -> None:
        """Gives the group another member or assignment: other clusters work on the partitions not assigned here."""
        self._generation += 1
        self._member = b"nobody"
        for at in sorted(self.plan.reads - self.assigned):
            self.offsets[at] += self.rng.randrange(3)

    @override
    def _tell_group(self) -> None:
        if self.dispatcher is not None:
            self._next_generation()
            self._member = f"{self.incarnation}/{self._generation}".encode()
            self.assigned_told = self.assigned
            self.dispatcher.feed(GroupAssigned(self.assigned, self._member))


def transactional(actor: SimulatedActor) -> TransactionalActor:
    """An actor of this world."""
    return cast("TransactionalActor", actor)
