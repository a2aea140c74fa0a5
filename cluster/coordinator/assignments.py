"""Assigns to each actor its tasks and standbys, under an epoch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from penstock.cluster.actor_record import ActorRecord, Phase
from penstock.cluster.events import AssignTasks, Instruction
from penstock.cluster.placement.owned_tasks import OwnedTasks
from penstock.cluster.placement.task_placer import TaskPlacer
from penstock.common.ids import TaskId


class Assignments:
    """The part of the coordinator's state machine that hands out tasks. Each assignment has an epoch of its own."""

    def __init__(
        self,
        actors: Mapping[str, ActorRecord],
        owned: OwnedTasks,
        placer: TaskPlacer,
        first_epoch: int,
        instruct: Callable[[Instruction], None],
    ) -> None:
        self.epoch = first_epoch - 1
        """The last epoch given out."""
        self._actors = actors
        self._owned = owned
        self._placer = placer
        self._instruct = instruct

    def go_above(self, epoch: int) -> None:
        """Give out no epoch up to ``epoch``, which an earlier coordinator has given out."""
        self.epoch = max(self.epoch, epoch)

    def suspend(self) -> None:
        """The group assigns its partitions again: note that the actors are to commit all and suspend their tasks until
        they are assigned again, under a later epoch than :attr:`epoch` is after this call."""
        self._owned.rebalancing = True
        self.epoch += 1
        for actor in self._actors.values():
            actor.outdated = True

    def send(self) -> None:
        """Send each actor the tasks meant for it that no other may still work on; one assignment at a time."""
        if self._owned.rebalancing:
            return
        unsure = any(actor.unsure for actor in self._actors.values())
        holders = Counter(task for actor in self._actors.values() for task in actor.held)
        meant_for: dict[str, set[TaskId]] = defaultdict(set)
        for task in self._owned.tasks & self._placer.target.keys():
            meant_for[self._placer.target[task]].add(task)
        for name, actor in self._actors.items():
            if actor.phase is not Phase.UP or actor.epoch != actor.confirmed:
                continue
            meant = {task for task in meant_for[name] if holders[task] == (task in actor.held)}
            if actor.issued and self._owned.under_lost_session(actor.epoch):
                meant = set()  # it gives up what it began under the lost session before it gets anything again
            tasks = frozenset(meant & actor.held if unsure else meant)
            issued = {task: self._owned.plan.partitions[task] for task in tasks}
            standbys = self._placer.standbys_of(name, tasks)
            if issued != actor.issued or standbys != actor.standbys or actor.unsure or actor.outdated:
                self.epoch += 1
                # The lag of a standby that is given up is not known any more, even if there is one again later.
                actor.lags = {task: lag for task, lag in actor.lags.items() if task in actor.standbys & standbys}
                actor.outdated, actor.standbys = False, standbys
                actor.running &= {task for task in tasks if issued[task] == actor.issued.get(task)}
                actor.epoch, actor.issued, actor.held = self.epoch, issued, actor.held | tasks
                self._instruct(AssignTasks(name, actor.epoch, tasks, standbys))
