"""Makes events of the history, which are sentences, out of those of the coordinator's state machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from penstock.cluster import events
from penstock.cluster.application_history import EventKind, EventLevel
from penstock.cluster.rollout import Hold, Rollout
from penstock.cluster.status import ApplicationState
from penstock.cluster.wishes import Wishes
from penstock.common.ids import TaskId
from penstock.common.shown import counted

_INFO, _WARNING, _ERROR = EventLevel.INFO, EventLevel.WARNING, EventLevel.ERROR
_MOST_NAMED = 8
_MOST_GONE = 200
_MAY_CHANGE_WANTED = (events.ActorsWanted, events.ClusterResized, events.GroupAssigned, events.TasksPlanned)


class AddEvent(Protocol):
    """Adds an event to the history."""

    def __call__(
        self,
        kind: EventKind,
        sentence: str,
        level: EventLevel = EventLevel.INFO,
        actor: str | None = None,
        task: TaskId | None = None,
    ) -> None:
        """Add it, as of now."""


class Machine(Protocol):
    """The part of the coordinator's state machine that is needed here, as it is after the event."""

    @property
    def placement(self) -> Mapping[TaskId, str]:
        """Task to the actor that it is assigned to."""

    @property
    def wanted(self) -> int:
        """Number of actors that there should be."""

    @property
    def tasks(self) -> frozenset[TaskId]:
        """Tasks that the group gives to this cluster."""

    @property
    def wishes(self) -> Wishes:
        """The placements that users want."""

    def why_leaves(self, name: str) -> str | None:
        """Returns the reason for which the tasks of an actor are to go elsewhere; None if they are not."""

    def is_wished(self, task: TaskId, name: str) -> bool:
        """True if a user has asked for the task on this actor."""


class MachineEvents:
    """Takes every event of the machine with its instructions. ``add`` adds those to the history that users care
    about."""

    def __init__(self, machine: Machine, add: AddEvent) -> None:
        self._machine = machine
        self._add = add
        self._where: dict[TaskId, str] = {}
        self._gone: dict[str, str] = {}  # why actors are gone, of late, the last one at the end
        self._state = ApplicationState.CREATED
        self._wanted = machine.wanted
        self._held: Hold | None = None
        self._no_broker = False
        self._wishes = machine.wishes
        self._draining: frozenset[str] = frozenset()
        self._handlers: dict[type, Callable[[Any], None]] = {
            events.GroupAssigned: self._group_assigned,
            events.GroupRebalances: self._group_rebalances,
            events.NodesDraining: self._nodes_draining,
            events.TasksPlanned: self._tasks_planned,
            events.ActorRecovered: self._actor_recovered,
            events.ActorUp: self._actor_up,
            events.ActorSilent: self._actor_silent,
            events.ActorStopped: self._actor_stopped,
            events.ActorLost: self._actor_lost,
            events.ActorFailed: self._actor_failed,
            events.StopRequested: self._stop_requested,
            events.TasksHeld: self._tasks_held,
            events.MoveTaskRequested: self._move_requested,
            events.RestartActorRequested: self._restart_requested,
        }

    def decided(self, event: events.Event, instructions: Iterable[events.Instruction]) -> None:
        """Take an event, and the instructions that the machine has given for it."""
        if (handler := self._handlers.get(type(event))) is not None:
            handler(event)
        if isinstance(event, _MAY_CHANGE_WANTED):
            self._add_wanted()
        assigned, given_up = False, dict[TaskId, str]()
        for instruction in instructions:
            match instruction:
                case events.SetWishes(wishes):
                    given_up = self._given_up(wishes)
                case events.SetState(state, error):
                    self._enter(state, error)
                case events.SetRollout(rollout):
                    self._add(EventKind.ROLLOUT, _rollout_sentence(rollout))
                case events.AssignTasks():
                    assigned = True
        if assigned:
            self._add_moves()
        self._add_given_up(given_up)

    # ---- events ----

    def _group_assigned(self, event: events.GroupAssigned) -> None:
        if event.partitions is None:
            lost = "the session in the group is lost: no task runs until there is another"
            self._add(EventKind.GROUP, lost, _WARNING)
        else:
            given = f"the group gives {counted(len(event.partitions), 'partition')} to this Ray cluster"
            self._add(EventKind.GROUP, f"{given}: {counted(len(self._machine.tasks), 'task')}")

    def _group_rebalances(self, _: events.GroupRebalances) -> None:
        self._add(EventKind.GROUP, "the group rebalances: all tasks commit, and wait for its assignment")

    def _add_wanted(self) -> None:
        """Add a change of the number of actors that there should be. While there are no tasks, or a restarted
        coordinator does not know them, it is 0, which is left out."""
        wanted, before = self._machine.wanted, self._wanted
        if wanted not in (0, before):
            self._wanted = wanted
            than = f", {before} before" if before else ""
            self._add(EventKind.SCALE, f"{counted(wanted, 'stream actor')} wanted{than}")

    def _nodes_draining(self, event: events.NodesDraining) -> None:
        nodes = frozenset(event.seconds_left)
        if nodes != self._draining:
            self._draining = nodes
            now = f"{counted(len(nodes), 'node')} will be gone: the actors there leave"
            self._add(EventKind.SCALE, now if nodes else "no node is drained any more")

    def _tasks_planned(self, event: events.TasksPlanned) -> None:
        tasks = counted(len(event.plan.partitions), "task")
        self._add(EventKind.GROUP, f"the source topics have changed: there are {tasks} now")

    def _actor_recovered(self, event: events.ActorRecovered) -> None:
        # Where the tasks of an actor are when the history begins is no move.
        self._where.update(dict.fromkeys(event.tasks, event.actor_id))
        holds = f"the restarted coordinator has found {event.actor_id} with {counted(len(event.tasks), 'task')}"
        self._add(EventKind.ACTOR, holds, actor=event.actor_id)

    def _actor_up(self, event: events.ActorUp) -> None:
        self._gone.pop(event.actor_id, None)
        self._add(EventKind.ACTOR, f"{event.actor_id} has started", actor=event.actor_id)

    def _actor_silent(self, event: events.ActorSilent) -> None:
        name = event.actor_id
        sentence = f"{name} gives no sign of life" if event.silent else f"{name} answers again"
        self._add(EventKind.ACTOR, sentence, _WARNING if event.silent else _INFO, name)

    def _actor_stopped(self, event: events.ActorStopped) -> None:
        self._ended(event.actor_id, "has ended")
        self._add(EventKind.ACTOR, f"{event.actor_id} has committed and ended", actor=event.actor_id)

    def _actor_lost(self, event: events.ActorLost) -> None:
        self._ended(event.actor_id, "is lost")
        self._add(EventKind.ACTOR, f"{event.actor_id} is lost", _WARNING, event.actor_id)

    def _actor_failed(self, event: events.ActorFailed) -> None:
        self._ended(event.actor_id, "has failed")
        cause = event.error.partition("\n")[0]
        self._add(EventKind.ACTOR, f"{event.actor_id} has failed: {cause}", _ERROR, event.actor_id)

    def _stop_requested(self, _: events.StopRequested) -> None:
        self._add(EventKind.STATE, "a user has asked for the end of the application")

    def _tasks_held(self, event: events.TasksHeld) -> None:
        before, self._held = self._held, event.by
        if Hold.PAUSED in (before, event.by):
            self._add(EventKind.PAUSE, "paused" if event.by is Hold.PAUSED else "resumed")
        # Of a paused application it is not known if a broker answers.
        no_broker = self._no_broker if event.by is Hold.PAUSED else event.by is Hold.NO_BROKER
        if no_broker is not self._no_broker:
            self._no_broker = no_broker
            now = "no broker answers" if no_broker else "a broker answers again"
            self._add(EventKind.STATE, now, _WARNING if no_broker else _INFO)

    def _move_requested(self, event: events.MoveTaskRequested) -> None:
        if self._machine.is_wished(event.task, event.to):
            sentence = f"a user has asked to move task {event.task} to {event.to}"
            self._add(EventKind.MOVE, sentence, actor=event.to, task=event.task)

    def _restart_requested(self, event: events.RestartActorRequested) -> None:
        self._add(EventKind.ACTOR, f"a user has asked to restart {event.actor_id}", actor=event.actor_id)

    def _ended(self, name: str, why: str) -> None:
        self._gone.pop(name, None)
        self._gone[name] = why
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]

    # ---- instructions ----

    def _enter(self, state: ApplicationState, error: str | None) -> None:
        before, self._state = self._state, state
        failed = state in (ApplicationState.PENDING_ERROR, ApplicationState.ERROR)
        why = f": {error}" if failed and error else ""
        self._add(
            EventKind.STATE, f"the application is {state.value}, after {before.value}{why}", _ERROR if failed else _INFO
        )

    def _add_moves(self) -> None:
        """Add the moves of tasks to another actor, one event for all that go the same way. The first actor of a task is
        no move."""
        found: dict[tuple[str, str, str], list[TaskId]] = {}
        for task, now in self._machine.placement.items():
            before = self._where.get(task)
            if before != now:
                self._where[task] = now
                if before is not None:
                    found.setdefault((before, now, self._why(task, before, now)), []).append(task)
        for (before, now, why), tasks in found.items():
            only = tasks[0] if len(tasks) == 1 else None
            verb = "moves" if only else "move"
            self._add(
                EventKind.MOVE, f"{named(tasks)} {verb} from {before} to {now}: {why}", actor=now, task=only
            )  # fmt: skip

    def _given_up(self, wishes: Wishes) -> dict[TaskId, str]:
        """Returns the wishes that hold no more and that no other one replaces, of tasks that have not moved yet."""
        before, self._wishes = self._wishes, wishes
        return {
            task: to
            for task, to in before.by_task.items()
            if task not in wishes.by_task and self._where.get(task) != to
        }

    def _add_given_up(self, wishes: Mapping[TaskId, str]) -> None:
        found: dict[tuple[str, str], list[TaskId]] = {}
        for task, to in wishes.items():
            if self._machine.placement.get(task) != to:
                taken = task not in self._machine.tasks
                why = "the group has taken it away" if taken else "stream actors have come or gone since"
                found.setdefault((to, why), []).append(task)
        for (to, why), tasks in found.items():
            only = tasks[0] if len(tasks) == 1 else None
            sentence = f"a user had asked to move {named(tasks)} to {to}, which does not hold any more: {why}"
            self._add(EventKind.MOVE, sentence, _WARNING, to, only)

    def _why(self, task: TaskId, before: str, now: str) -> str:
        if (gone := self._gone.get(before)) is not None:
            return f"{before} {gone}"
        if self._machine.is_wished(task, now):
            return "a user has asked for it"
        return self._machine.why_leaves(before) or "to balance the load"


def named(tasks: list[TaskId]) -> str:
    """Returns some tasks as text, such as ``task 1_0`` and ``tasks 1_0, 1_1, and 8 others``."""
    return "task " + str(tasks[0]) if len(tasks) == 1 else "tasks " + ", ".join(_first(sorted(tasks)))


def _first(tasks: list[TaskId]) -> Iterator[str]:
    yield from map(str, tasks[:_MOST_NAMED])
    if len(tasks) > _MOST_NAMED:
        yield f"and {len(tasks) - _MOST_NAMED:,} others"


def _rollout_sentence(rollout: Rollout) -> str:
    return f"version {rollout.last} of the program: {rollout.phase.value}" + (
        f": {rollout.reason}" if rollout.reason else ""
    )
