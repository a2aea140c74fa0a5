"""Decides where each task runs, and which actors keep standbys of it for the case that its actor is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from penstock.cluster.actor_record import ActorRecord, Phase
from penstock.cluster.placement.assignor import assign
from penstock.cluster.placement.owned_tasks import OwnedTasks
from penstock.cluster.placement.standby_assignor import Place, StandbyPolicy, assign_standbys
from penstock.cluster.wishes import NO_WISHES, Wishes
from penstock.common.ids import TaskId


class TaskPlacer:
    """The part of the coordinator's state machine that decides the placement. Mirrors ``HighAvailabilityTaskAssignor``.

    A task whose actor is lost goes at once to a standby that has caught up. A task that is to move for balance alone
    stays until its stores are at its new actor: on the disk of the same node, or in a standby that is made for that and
    has caught up (a *warm-up*).
    """

    def __init__(
        self,
        actors: Mapping[str, ActorRecord],
        owned: OwnedTasks,
        policy: StandbyPolicy,
        leaves: Callable[[str], bool] = lambda _: False,
        is_outdated: Callable[[str], bool] = lambda _: False,
        wishes: Wishes = NO_WISHES,
    ) -> None:
        """``leaves``: returns True if the tasks of an actor are to move, because its node will be gone or another
        version of the program replaces its own. ``is_outdated``: returns True if only the version is the reason, so
        that there is time to move one task after the other. ``wishes``: those of an earlier coordinator."""
        self.target: dict[TaskId, str] = {}
        """The actor that each task is meant for."""
        self.standbys: dict[TaskId, tuple[str, ...]] = {}
        """The actors that are to keep a standby of each task, warm-ups included."""
        self.moving: dict[TaskId, str] = {}
        """The actors that tasks are to move to once they have caught up there."""
        self.wishes = wishes
        """The placements that users want. The other tasks are balanced among themselves."""
        self._actors = actors
        self._owned = owned
        self._policy = policy
        self._leaves = leaves
        self._is_outdated = is_outdated
        self._nodes: dict[TaskId, str] = {}  # where each task ran last, whose disk has its stores
        self._labels: Mapping[str, Mapping[str, str]] = {}
        self._chosen_by: tuple[object, ...] = ()
        self._probed: dict[tuple[TaskId, str], int | None] = {}  # what each warm-up lacked at the last probe
        self._set_back: frozenset[tuple[TaskId, str]] = frozenset()
        self._never_begun: frozenset[tuple[TaskId, str]] = frozenset()  # of these no lag was known at two probes

    def take_labels(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """Take the labels of all nodes."""
        self._labels = labels

    def recovered(self, name: str) -> None:
        """Take an actor that was found after a restart of the coordinator, with the tasks that it holds."""
        self.target.update(dict.fromkeys(self._actors[name].held, name))

    def ran(self, tasks: frozenset[TaskId], node: str) -> None:
        """Note that these tasks run on this node, so their stores are on its disk."""
        self._nodes.update(dict.fromkeys(tasks, node))

    def wish(self, task: TaskId, to: str) -> None:
        """Take the wish of a user: the task is to move to this actor, and to stay there."""
        self.wishes = self.wishes.with_task(task, to, frozenset(self._candidates()))

    def keep_or_promote(self) -> None:
        """Leave each task where it is, if its actor is up; what has none goes to a standby that has caught up."""
        up, tasks = self._up(), self._owned.tasks
        self.target = {task: name for task, name in self.target.items() if task in tasks and name in up}
        self.moving = {task: name for task, name in self.moving.items() if task in tasks and name in up}
        for task in tasks - self.target.keys():
            ready = [name for name in up if self._caught_up(task, name)]
            if ready:
                self.target[task] = min(ready, key=lambda it: (self._leaves(it), self._actors[it].lags[task], it))
        self.standbys = {
            task: tuple(name for name in names if name in up and name != self.target.get(task))
            for task, names in self.standbys.items()
            if task in tasks
        }

    def choose(self) -> None:
        """An actor for every task, and the standbys. What :meth:`keep_or_promote` has placed moves for balance only."""
        up, plan = self._up(), self._owned.plan
        if not up or self._known() == self._chosen_by:
            return
        up = self._candidates()
        self.wishes = self.wishes.holding(frozenset(up), self._owned.tasks)
        wished = self.wishes.by_task
        ideal = {**assign(self._owned.tasks - wished.keys(), up, self._preferred(up), plan.stateful), **wished}
        self.moving = {}
        busy = self._busy()
        # All tasks of one actor before those of the next, so that its CPU is free soon.
        for task, name in sorted(ideal.items(), key=lambda move: (self.target.get(move[0], ""), move[0])):
            now = self.target.get(task)
            if now is None or now == name:
                self.target[task] = name
            elif not self._can_move(task, now, name) and not self._waits_in_vain(task, now, name):
                self.moving[task] = name
            elif not self._is_outdated(now):
                self.target[task] = name
            elif not busy & {now, name}:
                self.target[task] = name
                busy = busy | {now, name}
        warmups = sorted(
            self.moving.items(),
            key=lambda move: (move in self._set_back, move[0] not in wished, self._lag(*move) is None, move),
        )
        self.standbys = self._choose_standbys(up)
        for task, name in warmups[: self._policy.max_warmups]:
            if name not in self.standbys.get(task, ()):
                self.standbys[task] = (*self.standbys.get(task, ()), name)
        self._chosen_by = self._known()

    def probe(self) -> None:
        """Take from warm-ups that have come no nearer since the last probe their priority among ``max.warmup.replicas``
        until the next one; called regularly while tasks are to move. A task that must leave its actor no longer waits
        for a warm-up that has not begun between two probes."""
        now = {
            (task, name): self._lag(task, name)
            for task, name in self.moving.items()
            # While the session is lost, plans keep actors that are gone.
            if name in self._actors and name in self.standbys.get(task, ())
        }
        before = self._probed
        self._set_back = frozenset(it for it, lag in now.items() if it in before and not _nearer(lag, before[it]))
        self._never_begun = frozenset(
            it for it, lag in now.items() if lag is None and it in before and before[it] is None
        )
        self._probed = now
        self._chosen_by = ()

    def _known(self) -> tuple[object, ...]:
        """Everything that a choice depends on."""
        actors = {
            name: (it.phase, it.held, it.standbys, self._ready(it.lags), self._leaves(name))
            for name, it in self._actors.items()
        }
        return (
            self._owned.tasks,
            self._labels,
            actors,
            dict(self.target),
            dict(self.standbys),
            self._busy(),
            self.wishes,
        )

    def _busy(self) -> frozenset[str]:
        """While a version of the program replaces another: the actors between which a task moves just now. Another one
        would be silent for longer, as it would wait for the first."""
        if not any(map(self._is_outdated, self._actors)):
            return frozenset()
        holders = {task: name for name, actor in self._actors.items() for task in actor.held}
        under_way = [(task, name) for task, name in self.target.items() if task not in self._actors[name].running]
        return frozenset(name for _, name in under_way).union(holders.get(task, name) for task, name in under_way)

    def _ready(self, lags: Mapping[TaskId, int]) -> frozenset[TaskId]:
        return frozenset(task for task, lag in lags.items() if lag <= self._policy.acceptable_lag)

    def is_no_reason_to_choose(self, actor: ActorRecord, lags: Mapping[TaskId, int]) -> bool:
        """True if a report of these lags is no reason to choose again."""
        return lags.keys() == actor.lags.keys() and self._ready(lags) == self._ready(actor.lags)

    def standbys_of(self, name: str, tasks: frozenset[TaskId]) -> frozenset[TaskId]:
        """Returns the tasks of which the actor keeps standbys when ``tasks`` are those that it may work on: one that is
        meant for it, but is still another's, stays a standby until then."""
        if self._owned.session_lost:
            return self._actors[name].standbys & self._owned.plan.partitions.keys()
        kept = {task for task, names in self.standbys.items() if name in names}
        kept |= {task for task in self._actors[name].standbys if self.target.get(task) == name}
        return frozenset(kept & self._owned.tasks) - tasks - self._blocked_standbys(name)

    def _blocked_standbys(self, name: str) -> frozenset[TaskId]:
        """The standbys that a new actor may not begin yet, since an outdated one of its node still has their stores
        open. It would begin with empty ones."""
        own, left = self._actors[name], frozenset[TaskId]()
        for other, it in self._actors.items():
            if it.node == own.node and self._is_outdated(other) and not self._is_outdated(name):
                left |= it.standbys if it.settled else self._owned.tasks
        return left - own.standbys

    def _candidates(self) -> list[str]:
        """The actors that take tasks: all that are up, except those that leave, unless there are no others."""
        up = self._up()
        return [name for name in up if not self._leaves(name)] or up

    def _up(self) -> list[str]:
        return [name for name, actor in self._actors.items() if actor.phase is Phase.UP]

    def _lag(self, task: TaskId, name: str) -> int | None:
        """Returns the lag of the standby of ``task`` on this actor; None if there is none, or the lag is not known."""
        actor = self._actors[name]
        return actor.lags.get(task) if task in actor.standbys else None

    def _preferred(self, up: Sequence[str]) -> dict[TaskId, str]:
        """Returns the actor that has each task, or that may have most of its stores."""
        preferred = dict(self.target)
        load: Counter[str] = Counter()
        for task, now in sorted(self.target.items()):
            on_node = [name for name in up if self._actors[name].node == self._actors[now].node]
            if now not in up and on_node and task.subtopology not in self._owned.plan.in_memory:
                preferred[task] = min(on_node, key=lambda name: (load[name], name))
            load[preferred[task]] += 1
        for task in self._owned.tasks - self.target.keys():
            on_node = [name for name in up if self._actors[name].node == self._nodes.get(task)]
            lags = [(lag, name) for name in up if (lag := self._lag(task, name)) is not None]
            if on_node and task.subtopology not in self._owned.plan.in_memory:
                preferred[task] = min(on_node, key=lambda name: (len(self._actors[name].held), name))
            elif lags:
                preferred[task] = min(lags)[1]
        return preferred

    def _can_move(self, task: TaskId, now: str, name: str) -> bool:
        """True if the task would continue at once, or would have to wait where it is meant to be, too."""
        plan, actors = self._owned.plan, self._actors
        if task.subtopology not in plan.logged:
            return True
        if task not in actors[now].held:  # it is to be promoted there when the actor that had it is fenced
            return self._caught_up(task, name) or not self._caught_up(task, now)
        if actors[now].node == actors[name].node and task.subtopology not in plan.in_memory:
            return True
        return self._caught_up(task, name)

    def _waits_in_vain(self, task: TaskId, now: str, name: str) -> bool:
        """True if the task is restored where it goes, since it must leave and no standby can be warmed up there."""
        return self._leaves(now) and (task, name) in self._never_begun

    def _caught_up(self, task: TaskId, name: str) -> bool:
        lag = self._lag(task, name)
        return lag is not None and lag <= self._policy.acceptable_lag

    def _choose_standbys(self, up: Sequence[str]) -> dict[TaskId, tuple[str, ...]]:
        if not self._policy.replicas:
            return {}
        active = {task: name for task, name in self.target.items() if task.subtopology in self._owned.plan.logged}
        places = {name: self._place(self._actors[name].node) for name in up}
        current = {task: self._have_standbys(task, up) for task in active}
        chosen = assign_standbys(active, self._policy.replicas, places, current)
        return {task: (*names, *self._until(task, names, current[task])) for task, names in chosen.items()}

    def _have_standbys(self, task: TaskId, up: Sequence[str]) -> list[str]:
        """The actors of ``up`` that have a standby, or find the stores of one that an outdated actor leaves on their
        node."""
        left = {it.node for name, it in self._actors.items() if task in it.standbys and self._is_outdated(name)}
        return [name for name in up if task in self._actors[name].standbys or self._actors[name].node in left]

    def _until(self, task: TaskId, names: Sequence[str], current: Sequence[str]) -> list[str]:
        """The standbys that stay until those of ``names`` have caught up: the task would have too few otherwise."""
        lacking = sum(not self._caught_up(task, name) for name in names)
        return [name for name in current if name not in names and self._caught_up(task, name)][:lacking]

    def _place(self, node: str) -> Place:
        labels = self._labels.get(node, {})
        return Place(node, tuple(labels.get(tag) for tag in self._policy.tags))


def _nearer(lag: int | None, before: int | None) -> bool:
    return lag is not None and (before is None or lag < before)
