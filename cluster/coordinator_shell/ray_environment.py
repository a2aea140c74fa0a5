"""Gives the coordinator's dispatcher what it needs of Ray and Kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from typing_extensions import override

from penstock.actors.commits.exactly_once import transactional_id
from penstock.actors.status import ActorStatus
from penstock.cluster.coordinator_shell.deployments import Deployments
from penstock.cluster.coordinator_shell.membership import FINAL, Membership
from penstock.cluster.coordinator_shell.stream_actor_handle import StreamActorHandle
from penstock.cluster.coordinator_shell.user_operations import UserOperations
from penstock.cluster.environment import ActorHandle, CommitRefusedError, Environment, NodeAnswer
from penstock.cluster.events import Event, Instruction
from penstock.cluster.history.history import History
from penstock.cluster.ray_cluster.node_probe import NodeProbe
from penstock.cluster.rollout import Rollout
from penstock.cluster.scaling.ray_cpus import node_addresses
from penstock.cluster.status import ApplicationState
from penstock.cluster.watchers.dropped_records import DroppedRecords
from penstock.cluster.wishes import Wishes
from penstock.common.ids import CommittedOffset, Offsets
from penstock.common.log import logger
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.internal_topics.purger import Purger


class RayEnvironment(Environment):
    """The dispatcher's environment, of Ray and Kafka. ``membership`` returns that in the group, None before it
    begins. ``entered`` is called with each state of the application. ``spread``: put actors on many nodes, for
    standbys."""

    def __init__(
        self,
        deployments: Deployments,
        clients: ConfluentClients,
        purger: Purger,
        history: History,
        operations: UserOperations,
        membership: Callable[[], Membership | None],
        entered: Callable[[ApplicationState, str | None], None],
        spread: bool,
        process_id: str,
    ) -> None:
        self._process_id = process_id
        self._deployments = deployments
        self._spread = spread
        self._clients = clients
        self._purger = purger
        self._history = history
        self._operations = operations
        self._membership = membership
        self._entered = entered
        self._log = logger(__name__).bind(application=clients.group)
        self._dropped = DroppedRecords(time.monotonic, self._log)
        self._nodes = NodeProbe(node_addresses)

    @override
    def create_actor(self, actor_id: str, generation: int, node: str, avoid: frozenset[str]) -> ActorHandle:
        spec = self._deployments.pickled(generation)
        return StreamActorHandle.create(self._clients.group, actor_id, generation, spec, node, self._spread, avoid)

    @override
    async def commit(self, offsets: Offsets) -> None:
        membership = self._membership()
        if membership is None:
            raise CommitRefusedError("the coordinator is not a member of the group yet")
        try:
            await asyncio.wrap_future(membership.commit(offsets))
        except FINAL as error:
            raise CommitRefusedError(f"{type(error).__name__}: {error}") from error
        self._purger.committed(offsets)

    @override
    async def fence(self, slot: int) -> None:
        def fence() -> None:
            name = transactional_id(self._clients.group, self._process_id, slot)
            self._clients.take_id(name, f"fence the owner of {name!r}")

        await asyncio.to_thread(fence)

    @override
    async def node(self, node_id: str) -> NodeAnswer:
        return await self._nodes.ask(node_id)

    @override
    def decided(self, event: Event, instructions: Sequence[Instruction]) -> None:
        self._remember(lambda: self._history.decided(event, instructions))

    @override
    def reported(self, status: ActorStatus) -> None:
        self._dropped.reported(status)
        self._remember(lambda: self._history.reported(status))
        # Exactly once, the actors commit themselves.
        for task in status.tasks:
            self._purger.committed({tp: CommittedOffset(offset, "") for tp, offset in task.committed.items()})

    def _remember(self, take: Callable[[], None]) -> None:
        try:
            take()
        except Exception as error:  # the application must not end because its history lacks something
            self._log.error("history not continued", exc_info=error)

    @override
    def entered(self, state: ApplicationState, error: str | None) -> None:
        self._entered(state, error)

    @override
    def rolled_out(self, rollout: Rollout) -> None:
        self._deployments.rolled_out(rollout)

    @override
    def wished(self, wishes: Wishes) -> None:
        self._operations.wished(wishes)
