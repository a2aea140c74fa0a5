"""A coordinator's state machine that a test plays with, and its instructions."""

from __future__ import annotations

from typing import TypeVar

from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.events import (
    ActorAssigned,
    ActorReported,
    ActorUp,
    AssignTasks,
    ClusterResized,
    Event,
    GroupAssigned,
    Instruction,
    StartActor,
)
from penstock.cluster.status import ApplicationState
from penstock.common.ids import TaskId, TopicPartition
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan

T = TypeVar("T")
PLAN = TaskPlan((SubtopologyTasks(0, {"lines": 4}), SubtopologyTasks(1, {"words": 2, "stops": 1}, stateful=True)))
ALL = frozenset(partition for partitions in PLAN.partitions.values() for partition in partitions)
TASKS = frozenset(PLAN.partitions)
MORE = TaskPlan((SubtopologyTasks(0, {"lines": 6}), SubtopologyTasks(1, {"words": 2, "stops": 2}, stateful=True)))


class Play:
    """A coordinator and the instructions it gave."""

    def __init__(self, tasks_per_actor: int | None = None) -> None:
        self.machine = Coordinator(PLAN, tasks_per_actor, first_epoch=10)
        self.last: list[Instruction] = []

    def __call__(self, *events: Event) -> list[Instruction]:
        self.last = [instruction for event in events for instruction in self.machine.handle(event)]
        return self.last

    def of(self, kind: type[T]) -> list[T]:
        return [instruction for instruction in self.last if isinstance(instruction, kind)]

    def confirm(self) -> list[Instruction]:
        return self(*(ActorAssigned(it.actor_id, it.epoch) for it in self.of(AssignTasks)))

    def running(self, cpus: int = 2) -> dict[str, frozenset[TaskId]]:
        """Bring the application up; what each actor has."""
        self(ClusterResized(cpus), GroupAssigned(ALL))
        self(*(ActorUp(start.actor_id) for start in self.of(StartActor)))
        given = {it.actor_id: it.tasks for it in self.of(AssignTasks)}
        self.confirm()
        self(*(ActorReported(name, tasks, epoch_of(self, name)) for name, tasks in given.items()))
        assert self.machine.state is ApplicationState.RUNNING
        return given


def epoch_of(play: Play, actor: str) -> int:
    return play.machine._actors[actor].epoch


def offsets(*tasks: TaskId) -> dict[TopicPartition, tuple[int, str]]:
    return {partition: (1, "") for task in tasks for partition in PLAN.partitions[task]}
