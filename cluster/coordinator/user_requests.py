"""Takes what users ask for about single tasks and actors: to move a task, and to restart an actor."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.cluster.actor_record import ActorRecord, Phase
from penstock.cluster.coordinator.coordinator_view import CoordinatorView
from penstock.cluster.events import Instruction, MoveTaskRequested, RestartActorRequested, SetWishes
from penstock.cluster.placement.task_placer import TaskPlacer
from penstock.cluster.scaling.elasticity import Elasticity
from penstock.common.ids import TaskId


class UserRequests:
    """The part of the coordinator's state machine that judges these requests, and carries them out.

    A task moves as for balance: its stores are warmed up first. An actor that is restarted commits, closes and ends, as
    one that is too many. The number of actors wanted stays, so another starts at once, on the same node if it can.
    """

    def __init__(
        self,
        machine: CoordinatorView,
        actors: Mapping[str, ActorRecord],
        placer: TaskPlacer,
        elasticity: Elasticity,
        end: Callable[[str], None],
        instruct: Callable[[Instruction], None],
    ) -> None:
        """``end`` has an actor stop."""
        self._machine = machine
        self._actors = actors
        self._placer = placer
        self._elasticity = elasticity
        self._end = end
        self._instruct = instruct
        self._kept = placer.wishes

    def move(self, event: MoveTaskRequested) -> None:
        """Take the wish, unless it is refused."""
        if self.refusal_of_move(event.task, event.to) is None:
            self._placer.wish(event.task, event.to)

    def restart(self, event: RestartActorRequested) -> None:
        """Have the actor end, unless that is refused."""
        if self.refusal_of_restart(event.actor_id) is None:
            self._elasticity.start_next_on(self._actors[event.actor_id].node)
            self._end(event.actor_id)

    def keep_wishes(self) -> None:
        """Have the wishes kept if they have changed."""
        if self._placer.wishes != self._kept:
            self._kept = self._placer.wishes
            self._instruct(SetWishes(self._kept))

    def refusal_of_move(self, task: TaskId, to: str) -> str | None:
        """Returns the reason why the task cannot move to this actor; None if it can, or has this wish already."""
        machine, target = self._machine, self._placer.target
        if (refused := self._refusal()) is not None:
            return refused
        if task not in machine.tasks:
            if task not in machine.plan.partitions:
                return f"there is no task {task}"
            return f"the group gives task {task} to no actor of this Ray cluster now"
        if (refused := self._refusal_of_actor(to)) is not None:
            return refused
        if self._actors[to].silent:
            return f"{to} gives no sign of life"
        if target.get(task) == to and task not in machine.moving and not machine.is_wished(task, to):
            return f"task {task} is on {to} already"
        return None

    def refusal_of_restart(self, name: str) -> str | None:
        """Returns the reason why the actor cannot be restarted; None if it can."""
        return self._refusal() or self._refusal_of_actor(name)

    def _refusal(self) -> str | None:
        if not self._machine.state.is_live:
            return f"the application is in state {self._machine.state.value}"
        if self._machine.session_lost:
            return "the session in the consumer group is lost: no task runs until there is another"
        return None

    def _refusal_of_actor(self, name: str) -> str | None:
        actor = self._actors.get(name)
        if actor is None:
            return f"there is no stream actor {name}; there are: {', '.join(self._machine.actors) or 'none'}"
        now = self._machine.rollout.generation
        if actor.generation != now:
            return f"{name} runs version {actor.generation} of the program, which version {now} replaces"
        match actor.phase:
            case Phase.STARTING:
                return f"{name} has not started yet"
            case Phase.STOPPING:
                return f"{name} is ending"
            case Phase.FENCING:
                return f"{name} is lost"
            case Phase.UP:
                leaves = self._machine.why_leaves(name)
                return leaves and f"{name} is to end: {leaves}"
