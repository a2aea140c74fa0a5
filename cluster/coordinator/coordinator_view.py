"""The readable state of the coordinator's state machine."""

from __future__ import annotations

from penstock.cluster.actor_record import ActorRecord, Phase
from penstock.cluster.coordinator.assignments import Assignments
from penstock.cluster.coordinator.replacements import Replacements
from penstock.cluster.placement.owned_tasks import OwnedTasks
from penstock.cluster.placement.task_placer import TaskPlacer
from penstock.cluster.programs.rollouts import Rollouts
from penstock.cluster.rollout import Rollout
from penstock.cluster.scaling.elasticity import Elasticity
from penstock.cluster.scaling.unfit_nodes import UnfitNodes
from penstock.cluster.status import ApplicationState
from penstock.cluster.wishes import Wishes
from penstock.common.ids import TaskId, TopicPartition
from penstock.topology.physical.task_plan import TaskPlan


class CoordinatorView:
    """The side of :class:`~penstock.cluster.coordinator.coordinator.Coordinator` that changes nothing."""

    state: ApplicationState
    _actors: dict[str, ActorRecord]
    _assignments: Assignments
    _cpus: int | None
    _elasticity: Elasticity
    _exactly_once: bool
    _owned: OwnedTasks
    _placer: TaskPlacer
    _replacements: Replacements
    _rollouts: Rollouts
    _unfit: UnfitNodes

    @property
    def exactly_once(self) -> bool:
        """True if Kafka fences actors."""
        return self._exactly_once

    @property
    def epoch(self) -> int:
        """The last epoch given out."""
        return self._assignments.epoch

    @property
    def rollout(self) -> Rollout:
        """The progress of the roll-out from one version of the program to the next."""
        return self._rollouts.now

    @property
    def watch_held(self) -> str | None:
        """The reason for which a new version that all tasks run is not watched; None if it is, or there is none."""
        return held.value if (held := self._rollouts.held) is not None else None

    @property
    def rolls_out(self) -> bool:
        """True if tasks still move from one version of the program to another."""
        return self._rollouts.under_way

    @property
    def makes_room(self) -> str | None:
        """Notice that an actor of the old version ends before a new one has started; None if that is not so."""
        name = self._rollouts.makes_room
        return name and f"no CPU is free for the new version: {name} ends to make room for a new actor"

    @property
    def plan(self) -> TaskPlan:
        """The tasks there are."""
        return self._owned.plan

    @property
    def unplanned(self) -> frozenset[TopicPartition]:
        """Partitions that the group gives to this cluster but no task reads: a source topic has got partitions, plan
        again."""
        return self._owned.unplanned

    @property
    def orphaned(self) -> frozenset[TopicPartition]:
        """Partitions that the group gives to this cluster without all others that their task reads: a topic may be
        gone."""
        return self._owned.orphaned

    @property
    def session_lost(self) -> bool:
        """True if the session in the group is lost: no task runs until there is another."""
        return self._owned.session_lost

    @property
    def placement(self) -> dict[TaskId, str]:
        """Task to the actor that it is assigned to."""
        return {
            task: name for name, actor in self._actors.items() for task in actor.issued if task in self._owned.tasks
        }

    @property
    def unhosted(self) -> dict[TaskId, str]:
        """The tasks that no actor has now, and what each of them waits for."""
        return {task: self._why_unhosted(task) for task in self._owned.tasks - self.placement.keys()}

    def _why_unhosted(self, task: TaskId) -> str:
        target = self._placer.target.get(task)
        for name, actor in self._actors.items():
            if task in actor.held and actor.phase is Phase.FENCING:
                return f"{name} is lost, and must be fenced before another actor continues"
            if task in actor.held and name != target:
                return f"{name} has not released it yet: it moves as soon as that is done"
        if target is not None:
            return f"{target} has not confirmed its previous assignment yet: the task follows as soon as it does"
        if self._replacements.backing_off:
            return self.waits_for or "stream actors keep failing; the next one is started after a pause"
        starting = self.starting
        if not starting:
            return "there is no stream actor"
        are = "is" if len(starting) == 1 else "are"
        return f"{', '.join(starting)} {are} starting: if that lasts, 'ray status' shows if a CPU is lacking"

    @property
    def moving(self) -> dict[TaskId, str]:
        """Task to the actor that it is to move to once its stores have caught up there."""
        return dict(self._placer.moving)

    @property
    def wishes(self) -> Wishes:
        """The placements that users want."""
        return self._placer.wishes

    def is_wished(self, task: TaskId, name: str) -> bool:
        """True if a user has asked for the task on this actor, and the wish still holds."""
        return self._placer.wishes.by_task.get(task) == name

    def why_leaves(self, name: str) -> str | None:
        """Returns the reason for which the tasks of an actor are to go elsewhere; None if they are not, or it is
        gone."""
        return self._elasticity.why_leaves(name) if name in self._actors else None

    @property
    def standbys(self) -> dict[TaskId, tuple[str, ...]]:
        """Task to the actors that keep a standby of it."""
        found: dict[TaskId, tuple[str, ...]] = {}
        for name, actor in self._actors.items():
            for task in actor.standbys:
                found[task] = (*found.get(task, ()), name)
        return found

    @property
    def actors(self) -> tuple[str, ...]:
        """Every actor that is not gone."""
        return tuple(name for name, actor in self._actors.items() if actor.phase is not Phase.FENCING)

    @property
    def silent(self) -> frozenset[str]:
        """Every actor whose process gives no sign of life."""
        return frozenset(name for name, actor in self._actors.items() if actor.silent)

    def node_of(self, name: str) -> str:
        """The id of the Ray node of an actor; empty if it is not known."""
        return self._actors[name].node if name in self._actors else ""

    @property
    def starting(self) -> tuple[str, ...]:
        """Every actor that is not up yet."""
        return tuple(name for name, actor in self._actors.items() if actor.phase is Phase.STARTING)

    @property
    def waits_for(self) -> str | None:
        """Notice of what it waits for before it replaces actors that have failed."""
        return self._replacements.waits_for

    @property
    def unfit(self) -> str | None:
        """The notice to users of nodes whose disk fails; None if there is none."""
        return self._unfit.notice

    @property
    def unfit_nodes(self) -> frozenset[str]:
        """The ids of the nodes whose disk fails."""
        return self._unfit.nodes

    @property
    def tasks(self) -> frozenset[TaskId]:
        """Tasks that the group gives to this cluster."""
        return self._owned.tasks

    @property
    def wanted(self) -> int:
        """Number of actors that there should be."""
        return self._elasticity.count(len(self._owned.tasks), self._cpus or 0)

    @property
    def actors_per_task(self) -> int:
        """Number of actors that a task and its standbys need."""
        return self._elasticity.actors_per_task

    @property
    def most_actors(self) -> int:
        """Number of actors beyond which further ones would have nothing to do."""
        return max(len(self._owned.tasks), self.actors_per_task) if self._owned.tasks else 0

    @property
    def staying(self) -> list[str]:
        """Every actor that is up, or starts, and is not to end."""
        return self._elasticity.staying()

    @property
    def hindrance(self) -> str | None:
        """The reason why the number of actors cannot be judged now; None if all is as it should be."""
        if self._elasticity.drains:
            return "actors leave a node that is drained"
        if self._unfit.nodes:
            return "the disk of a node fails"
        if self._rollouts.under_way:
            return "a new version of the program is rolled out"
        return "the group gives no tasks" if not self._owned.tasks or self.session_lost else None

    def is_up(self, name: str) -> bool:
        """True if the actor has started and is not gone."""
        return name in self._actors and self._actors[name].phase in (Phase.UP, Phase.STOPPING)
