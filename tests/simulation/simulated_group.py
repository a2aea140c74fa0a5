"""The consumer group: coordinators are its members, sessions end, and a rebalance waits for the last commits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.cluster.environment import CommitRefusedError
from penstock.cluster.events import GroupAssigned
from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import Offsets, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.coordinator_process import CoordinatorProcess
    from tests.simulation.simulated_kafka import SimulatedBroker

SESSION_S = 45.0
_HEARTBEAT_S = 1.0


class Group:
    """All members; one rebalance at a time."""

    def __init__(self, broker: SimulatedBroker, name: str) -> None:
        self.broker, self.name = broker, name
        self.members: dict[str, Member] = {}
        self._one = asyncio.Lock()

    async def join(self, member: Member) -> None:
        """Returns when the member has its place: at once if the group knows its static id and subscription."""
        async with self._one:
            await self._be_there()
            group = self.broker.group(self.name)
            known = group.subscriptions.get(member.instance) == frozenset(member.topics)
            if not known:
                await self._revoke_all()
            await self._be_there()
            member.incarnation = self.broker.join(self.name, member.instance, member.topics)
            self.members[member.instance] = member
            for other in self.members.values() if not known else [member]:
                other.take_assignment()

    async def rebalance(self, leaving: str | None = None, waits_for_it: bool = False) -> None:
        """The group hands out its partitions again; without the member ``leaving``, if there is one. ``waits_for_it``:
        until that one has committed."""
        async with self._one:
            await self._revoke_all(but=None if waits_for_it else leaving)
            await self._be_there()
            group = self.broker.group(self.name)
            if leaving is not None:
                group.subscriptions.pop(leaving, None)
                self.members.pop(leaving, None)
            group.generation += 1
            for member in self.members.values():
                member.take_assignment()

    async def watch(self) -> None:
        """Remove each member whose session has ended from the group; never returns."""
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            for name, member in list(self.members.items()):
                if member.is_heard or not self.broker.answers:
                    member.heard_s = member.process.now()
                elif member.process.now() - member.heard_s > SESSION_S:
                    member.process.world.note(f"{name} is out of the group")
                    await self.rebalance(leaving=name)

    async def _be_there(self) -> None:
        while not self.broker.answers:
            await asyncio.sleep(_HEARTBEAT_S)

    async def _revoke_all(self, but: str | None = None) -> None:
        others = [member for name, member in self.members.items() if name != but]
        await asyncio.gather(*(member.revoke() for member in others))


class Member:
    """The static membership of one incarnation of a coordinator; ends with its process."""

    def __init__(self, group: Group, process: CoordinatorProcess, instance: str, topics: frozenset[str]) -> None:
        self.group, self.process, self.instance, self.topics = group, process, instance, topics
        self.incarnation = 0
        self.mine: frozenset[TopicPartition] | None = None
        """The assigned partitions; None without a session."""
        self._generation = -1
        self._hearing: asyncio.Task[None] | None = None
        self.heard_s = process.now()

    @property
    def is_heard(self) -> bool:
        """True if its heartbeats arrive."""
        return self.process.exists and self.process.reaches_broker

    async def stay(self) -> None:
        """Join, again after each lost session, and notice the end of a session."""
        process = self.process
        while True:
            while not process.reaches_broker:
                await process.sleep(_HEARTBEAT_S)
            await self.group.join(self)
            heard_s = process.now()
            while process.now() - heard_s < SESSION_S:
                await process.sleep(_HEARTBEAT_S)
                if process.reaches_broker:
                    heard_s = process.now()
                    if self._generation != self.group.broker.group(self.group.name).generation:
                        break  # it has missed a rebalance, or was removed: the answer to its heartbeat reports it
            self.mine = None
            process.feed(GroupAssigned(None))

    def take_assignment(self) -> None:
        """Takes the partitions that the group has handed out; if the member is cut off, it does when it joins again."""
        if not self.is_heard:
            return
        self.mine = self.group.broker.range_assignment(self.group.name, self.instance)
        self._generation = self.group.broker.group(self.group.name).generation
        metadata = self.group.broker.metadata(self.group.name, self.instance, self.incarnation)
        self._hearing = self.process.spawn(self._hear(self.mine, metadata))

    async def _hear(self, mine: frozenset[TopicPartition], metadata: bytes) -> None:
        await self.process.sleep(self.process.rng.uniform(0.0, 0.3))
        if self.mine is mine:
            self.process.feed(GroupAssigned(mine, metadata))

    async def revoke(self) -> None:
        """Returns after the last commits, or when the session has ended. As with librdkafka, a member hears of its
        assignment before it hears that this is revoked."""
        if self._hearing is not None:
            await asyncio.wait({self._hearing})
        for _ in range(int(SESSION_S / _HEARTBEAT_S)):
            if self.is_heard or not self.process.exists:
                break
            await asyncio.sleep(_HEARTBEAT_S)
        if self.mine and self.process.dispatcher is not None and self.is_heard:
            await asyncio.wait({self.process.dispatcher.suspend()}, timeout=SESSION_S)

    async def commit(self, offsets: Offsets) -> None:
        """Commits as a member. Raises StreamsError if the group refuses, or no answer comes."""
        process = self.process
        await process.sleep(process.rng.uniform(0.001, 0.02))
        if not process.reaches_broker:
            raise BrokerUnreachableError("no broker answers")
        if self.mine is None or offsets.keys() - self.mine:
            raise StreamsError("a partition is not assigned to this member of the group now")
        group = self.group.broker.group(self.group.name)
        if group.incarnations.get(self.instance) != self.incarnation:
            raise CommitRefusedError("another is the static member")
        if group.generation != self._generation:
            raise StreamsError("the generation has passed")
        group.offsets.update(offsets)
        await process.sleep(process.rng.uniform(0.001, 0.02))
        if not process.reaches_broker:
            raise BrokerUnreachableError("no answer")
