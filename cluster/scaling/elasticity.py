"""Decides how many stream actors there should be, which of them are too many, and which must leave their node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from penstock.cluster.actor_record import ActorRecord, Phase
from penstock.cluster.events import ActorsWanted, NodesDraining
from penstock.cluster.programs.rollouts import Rollouts
from penstock.cluster.scaling.unfit_nodes import UnfitNodes

LEAVE_S = 15.0
"""Seconds that an actor needs at most to commit and close its stores: then it must not wait for another any longer."""
_LIVING = (Phase.STARTING, Phase.UP)


def wanted_actors(tasks: int, tasks_per_actor: int | None, cpus: int, standbys: int = 0) -> int:
    """Returns the number of actors for ``tasks`` tasks: by ``tasks.per.actor``, else one per CPU, but no more than
    tasks. As far as there are CPUs, it is raised to put a task and each of its ``standbys`` on different actors."""
    if tasks == 0:
        return 0
    apart = 1 + standbys
    if tasks_per_actor is not None:
        return max(-(-tasks // tasks_per_actor), min(apart, cpus))
    return max(1, min(max(tasks, apart), cpus))


class Elasticity:
    """The part of the coordinator's state machine that decides what is wanted of CPUs and nodes."""

    def __init__(
        self,
        actors: Mapping[str, ActorRecord],
        rollouts: Rollouts,
        unfit: UnfitNodes,
        tasks_per_actor: int | None,
        standbys: int = 0,
    ) -> None:
        """``standbys``: the number that each task has, each on another actor."""
        self.actors_per_task = 1 + standbys
        """Number of actors for a task and its standbys, each on another actor."""
        self._actors = actors
        self._rollouts = rollouts
        self._unfit = unfit
        self._tasks_per_actor = tasks_per_actor
        self._count: int | None = None
        self._draining: Mapping[str, float | None] = {}
        self._next_nodes: list[str] = []

    def wanted(self, event: ActorsWanted) -> None:
        """Set the number of actors from now on, whatever CPUs there are."""
        self._count = event.count

    def draining(self, event: NodesDraining) -> None:
        """Take the nodes that will be gone, all of them: others named before will stay, or are gone."""
        self._draining = event.seconds_left

    @property
    def drains(self) -> bool:
        """True if actors must leave a node that will be gone."""
        return any(actor.node in self._draining for actor in self._actors.values())

    def _must_leave(self, node: str) -> bool:
        return node in self._draining or node in self._unfit.nodes

    def count(self, tasks: int, cpus: int) -> int:
        """Returns how many actors there should be for ``tasks`` tasks."""
        if self._count is not None:
            return min(self._count, max(tasks, self.actors_per_task) if tasks else 0)
        return wanted_actors(tasks, self._tasks_per_actor, cpus - self._unfit.cpus, self.actors_per_task - 1)

    def leaves(self, name: str) -> bool:
        """True if the actor is on a node that will be gone, or whose disk fails, or runs a version of the program that
        another replaces: it gets no more tasks, and another takes its place."""
        return self._must_leave(self._actors[name].node) or self._rollouts.must_leave(name)

    def why_leaves(self, name: str) -> str | None:
        """Returns the reason in words; None if the actor does not leave."""
        if (node := self._actors[name].node) in self._draining:
            return "its node will be gone"
        if node in self._unfit.nodes:
            return "the disk of its node fails"
        return "another version of the program replaces its own" if self._rollouts.must_leave(name) else None

    def start_next_on(self, node: str) -> None:
        """Have the next actor start on this node, if it can: its disk has the stores of the one that ends."""
        self._next_nodes.append(node)

    def node_for_next(self) -> str:
        """The node on which the next actor is to start; empty: any."""
        wanted = self._next_nodes.pop(0) if self._next_nodes else ""
        if wanted and not self._must_leave(wanted):
            return wanted
        return self._rollouts.node_for_next(self._unfit.nodes.union(self._draining))

    def must_end(self, targets: Set[str]) -> list[str]:
        """Returns the actors that leave and hold nothing, nor are in ``targets``, or cannot wait any longer."""
        leaving = [(name, it) for name, it in self._actors.items() if it.phase is Phase.UP and self.leaves(name)]
        ending = {name for name, it in leaving if self._due(it.node) or not (it.held or name in targets)}
        return [
            name
            for name in self._actors
            if name in ending or self._rollouts.must_end(name) or self._may_wait_in_vain(name)
        ]

    def _may_wait_in_vain(self, name: str) -> bool:
        """True if Ray must not start it on a node that may have actors again: no other node may have room."""
        actor = self._actors[name]
        return actor.phase is Phase.STARTING and not actor.avoids <= self._unfit.nodes

    def _due(self, node: str) -> bool:
        left_s = self._draining.get(node)
        return left_s is not None and left_s <= LEAVE_S

    def staying(self) -> list[str]:
        """Returns the actors that are up, or will be, and need not leave, now or when new ones have started."""
        return [
            name
            for name, actor in self._actors.items()
            if actor.phase in _LIVING and not self._must_leave(actor.node) and not self._rollouts.is_outdated(name)
        ]

    def too_many(self, wanted: int) -> list[str]:
        """Returns the actors to end so that ``wanted`` remain: first those whose end moves the fewest tasks, then
        those that are alone on their node, so that nodes become free. Returns all if ``wanted`` is 0: then no actor of
        a new version starts, so those of the old version need not wait for one."""
        staying = self.staying() if wanted else [name for name, it in self._actors.items() if it.phase in _LIVING]
        ending: list[str] = []
        while len(staying) > wanted:
            on_node = Counter(self._actors[name].node for name in staying)
            least = min(staying, key=lambda name: self._loss(name, on_node))
            staying.remove(least)
            ending.append(least)
        return ending

    def _loss(self, name: str, on_node: Mapping[str, int]) -> tuple[bool, bool, int, int]:
        actor = self._actors[name]
        # Tasks are spread so evenly that one more or less of them counts for less than a node.
        return actor.phase is Phase.UP, bool(actor.held), on_node[actor.node], len(actor.held)
