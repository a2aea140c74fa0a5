"""Requests to commit are taken from the actor of that name, not from one that had the name before."""

from __future__ import annotations

import pytest

from penstock.actors.commit_messages import CommitRequest
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.events import (
    AcceptCommit,
    ActorAssigned,
    ActorLost,
    ActorUp,
    AssignTasks,
    ClusterResized,
    CommitOffsets,
    CommitRequested,
    GroupAssigned,
    Instruction,
    RefuseCommit,
    StartActor,
)
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan

PLAN = TaskPlan((SubtopologyTasks(0, {"in": 1}),))
PLAN_OF_TWO = TaskPlan((SubtopologyTasks(0, {"in": 2}),))
(TASK,) = PLAN.partitions
FIRST_EPOCH = 100
OFFSETS = dict.fromkeys(PLAN.partitions[TASK], (5, ""))


def asked(machine: Coordinator, epoch: int, number: int, exactly_once: bool) -> list[Instruction]:
    offsets = {} if exactly_once else OFFSETS
    return machine.handle(CommitRequested(CommitRequest("stream/1", epoch, offsets, number)))


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("moment", ["before its assignment", "after it", "both"])
def test_an_actor_of_an_earlier_coordinator_does_not_answer_for_the_present_one_of_the_same_name(
    exactly_once: bool, moment: str
) -> None:
    machine = Coordinator(PLAN, None, FIRST_EPOCH, exactly_once)
    machine.handle(GroupAssigned(PLAN.reads, b"member"))
    assert StartActor("stream/1", 1) in machine.handle(ClusterResized(1))
    reported = []
    if moment != "after it":
        reported += asked(machine, FIRST_EPOCH - 7, 3, exactly_once)
    epoch = assigned(machine, machine.handle(ActorUp("stream/1")))
    if moment != "before its assignment":
        reported += asked(machine, FIRST_EPOCH - 7, 1, exactly_once)
        # If it is the same actor after all, it has dropped its tasks now.
        epoch = assigned(machine, reported)
        reported += asked(machine, FIRST_EPOCH - 7, 3, exactly_once)
        epoch = assigned(machine, reported[-2:])
    refusals = [it for it in reported if isinstance(it, RefuseCommit)]
    assert len(refusals) == {"before its assignment": 1, "after it": 2, "both": 3}[moment]
    assert all("earlier" in refusal.reason for refusal in refusals)
    (answer,) = asked(machine, epoch, 1, exactly_once)
    assert isinstance(answer, AcceptCommit if exactly_once else CommitOffsets)


def assigned(machine: Coordinator, instructions: list[Instruction]) -> int:
    """Confirms the assignment among the instructions and returns its epoch."""
    (found,) = [it for it in instructions if isinstance(it, AssignTasks)]
    assert found.tasks == {TASK}
    machine.handle(ActorAssigned("stream/1", found.epoch))
    return found.epoch


def test_an_actor_hears_at_once_that_it_is_part_of_the_application_before_it_confirms_an_assignment() -> None:
    machine = Coordinator(PLAN_OF_TWO, 2, 10, exactly_once=True)
    partitions = PLAN_OF_TWO.reads
    for event in (
        GroupAssigned(partitions, b"generation 1"),
        ClusterResized(1),
        ActorUp("stream/1", "node"),
        ActorAssigned("stream/1", 10),
        GroupAssigned(frozenset(sorted(partitions)[:1]), b"generation 2"),  # assigned again, under 11
    ):
        machine.handle(event)
    assert machine.epoch == 11
    finding = CommitRequest("stream/1", 10, {}, 1)
    assert machine.handle(CommitRequested(finding)) == []
    present = CommitRequest("stream/1", 10, {}, 2, presence=True)
    refused, accepted = machine.handle(CommitRequested(present))
    assert isinstance(refused, RefuseCommit)  # nothing waits for the earlier question any more
    assert accepted == AcceptCommit(present)


def test_an_actor_that_is_lost_hears_that_it_is_not_part_of_the_application() -> None:
    machine = Coordinator(PLAN_OF_TWO, 2, 10, exactly_once=True)
    for event in (
        GroupAssigned(PLAN_OF_TWO.reads, b"generation 1"),
        ClusterResized(1),
        ActorUp("stream/1", "node"),
        ActorAssigned("stream/1", 10),
        ActorLost("stream/1"),
    ):
        machine.handle(event)
    asked = CommitRequest("stream/1", 10, {}, 1, presence=True)
    (refused,) = machine.handle(CommitRequested(asked))
    assert isinstance(refused, RefuseCommit)
