"""A coordinator over actors that carry out orders at once."""

from __future__ import annotations

from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.events import (
    ActorAssigned,
    ActorLost,
    ActorReported,
    ActorStopped,
    ActorUp,
    AssignTasks,
    ClusterResized,
    Event,
    GroupAssigned,
    Instruction,
    StartActor,
    StopActor,
)
from penstock.cluster.placement.standby_assignor import StandbyPolicy
from penstock.common.ids import TaskId
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan

PLAN = TaskPlan((SubtopologyTasks(0, {"lines": 4}, stateful=True, logged=True),))
TASKS = frozenset(PLAN.partitions)
CAUGHT_UP, BEHIND = 10_000, 10_001
"""The most offsets that a standby may lack by default, and one more."""


class Cluster:
    """A coordinator over actors that carry out orders at once, but restore only when the test calls for it."""

    def __init__(self, policy: StandbyPolicy, plan: TaskPlan = PLAN, exactly_once: bool = False) -> None:
        self.machine = Coordinator(plan, None, 10, exactly_once, policy)
        self.plan = plan
        self.tasks: dict[str, frozenset[TaskId]] = {}
        self.standbys: dict[str, frozenset[TaskId]] = {}
        self.lags: dict[tuple[str, TaskId], int] = {}
        self.nodes: dict[str, str] = {}
        self.reported: list[Instruction] = []
        self.late: set[str] = set()
        """Actors that do not confirm at once."""
        self.unconfirmed: list[ActorAssigned] = []

    def __call__(self, *events: Event) -> None:
        waiting: list[Event] = list(events)
        while waiting:
            for reported in self.machine.handle(waiting.pop(0)):
                self.reported.append(reported)
                if isinstance(reported, AssignTasks):
                    self.tasks[reported.actor_id], self.standbys[reported.actor_id] = reported.tasks, reported.standbys
                    confirms = self.unconfirmed if reported.actor_id in self.late else waiting
                    confirms.append(ActorAssigned(reported.actor_id, reported.epoch))

    def starts(self) -> list[str]:
        """The actors that are to be started and are not up."""
        return [it.actor_id for it in self.reported if isinstance(it, StartActor) and it.actor_id not in self.nodes]

    def up(self, *nodes: str) -> list[str]:
        """The actors that are awaited come up on these nodes."""
        names = self.starts()
        for name, node in zip(names, nodes, strict=True):
            self.nodes[name] = node
            self(ActorUp(name, node))
        return names

    def report(self, lag: int = 0) -> None:
        """Lets all actors report what they have, with standbys this many offsets behind."""
        for name, actor in list(self.machine._actors.items()):
            lags = dict.fromkeys(self.standbys.get(name, ()), lag)
            self(ActorReported(name, self.tasks.get(name, frozenset()), actor.epoch, lags))

    def lose(self, name: str) -> None:
        self.tasks.pop(name, None)
        self.standbys.pop(name, None)
        self(ActorLost(name))

    def confirm_late(self) -> list[str]:
        """Lets the slow actors confirm their last assignments; returns their names."""
        waiting, self.unconfirmed = self.unconfirmed, []
        self(*waiting)
        return [it.actor_id for it in waiting]

    def end_those_that_stop(self) -> list[str]:
        """Lets the actors that have the order to stop end, committed and closed; returns their names."""
        names = [it.actor_id for it in self.reported if isinstance(it, StopActor) and it.actor_id in self.tasks]
        for name in names:
            del self.tasks[name], self.standbys[name]
            self(ActorStopped(name))
        return names

    def on(self, *nodes: str) -> list[str]:
        """Run on these nodes."""
        reads = frozenset(partition for partitions in self.plan.partitions.values() for partition in partitions)
        self(ClusterResized(len(nodes)), GroupAssigned(reads))
        names = self.up(*nodes)
        self.report()
        return names
