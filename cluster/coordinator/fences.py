"""Keeps the tasks of a lost actor from all others until that actor can write nothing any more."""

from __future__ import annotations

from collections.abc import Callable

from penstock.cluster.actor_record import ActorRecord, Phase
from penstock.cluster.events import ActorFenced, ActorsUnaccounted, FenceActor, Instruction
from penstock.cluster.placement.owned_tasks import OwnedTasks

_EARLIER = "an actor of the coordinator before this one"


class Fences:
    """The part of the coordinator's state machine that fences actors: each has a record in phase FENCING meanwhile."""

    def __init__(
        self,
        actors: dict[str, ActorRecord],
        owned: OwnedTasks,
        exactly_once: bool,
        commit_under_way: Callable[[str], bool],
        instruct: Callable[[Instruction], None],
    ) -> None:
        self._actors = actors
        self._owned = owned
        self._exactly_once = exactly_once
        self._commit_under_way = commit_under_way
        self._instruct = instruct
        self._fenced: set[str] = set()

    def actor_gone(self, name: str, actor: ActorRecord, in_doubt: bool, may_write_s: float) -> None:
        """Take an actor that is gone, or seems to be. Exactly once it must be fenced if its last commit is
        ``in_doubt``. At least once, its tasks also wait until Kafka has answered its last commit. Otherwise the
        next actor could begin before that commit, and its own successor after it. The successor would leave out the
        changelog records between the two."""
        if actor.held and (in_doubt if self._exactly_once else may_write_s > 0 or self._commit_under_way(name)):
            record = ActorRecord(Phase.FENCING, actor.slot, actor.node, held=actor.held, generation=actor.generation)
            self._begin(name, record, may_write_s)

    def unaccounted(self, event: ActorsUnaccounted) -> None:
        """Fence the tasks that no actor claims: an earlier coordinator may have given them to an actor that was not
        found."""
        claimed = {task for actor in self._actors.values() for task in actor.held}
        if not self._exactly_once and (unclaimed := self._owned.plan.partitions.keys() - claimed):
            generation = max((actor.generation for actor in self._actors.values()), default=1)
            record = ActorRecord(Phase.FENCING, held=frozenset(unclaimed), generation=generation)
            self._begin(_EARLIER, record, event.may_write_s)

    def fenced(self, event: ActorFenced) -> None:
        """Note that the actor can no longer write."""
        if event.actor_id in self._actors and self._actors[event.actor_id].phase is Phase.FENCING:
            self._fenced.add(event.actor_id)

    def release(self) -> None:
        """Give up the tasks of fenced actors of which no commit is under way."""
        for name in [it for it in self._fenced if not self._commit_under_way(it)]:
            self._fenced.remove(name)
            self._actors.pop(name, None)

    def _begin(self, name: str, record: ActorRecord, may_write_s: float) -> None:
        self._actors[name] = record
        self._instruct(FenceActor(name, record.slot, may_write_s, record.node))
