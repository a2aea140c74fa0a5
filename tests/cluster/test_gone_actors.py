"""Actors that are gone while something of theirs is still under way: a commit, or a planned move."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from penstock.actors.commit_messages import CommitRequest
from penstock.cluster.events import (
    ActorFenced,
    ActorLost,
    ActorUp,
    ClusterResized,
    CommitFailed,
    CommitOffsets,
    CommitRequested,
    CommitSucceeded,
    Event,
    GroupAssigned,
    Timer,
    TimerFired,
)
from penstock.cluster.placement.standby_assignor import StandbyPolicy
from penstock.common.ids import CommittedOffset
from tests.cluster.placement import BEHIND, PLAN, Cluster


def test_a_probe_in_a_lost_session_passes_over_moves_to_actors_that_are_gone() -> None:
    cluster = Cluster(StandbyPolicy())
    cluster.on("a")
    cluster(ClusterResized(2))
    (second,) = cluster.up("b")
    assert cluster.machine.moving
    cluster.report(BEHIND)
    cluster(GroupAssigned(None))
    cluster(ActorLost(second))
    cluster(TimerFired(Timer.PROBE))
    assert cluster.machine.actors


@pytest.mark.parametrize("outcome", [CommitSucceeded, partial(CommitFailed, error="no broker answers")])
def test_at_least_once_the_tasks_of_a_dead_actor_wait_for_the_answer_to_its_last_commit(
    outcome: Callable[[CommitRequest], Event],
) -> None:
    cluster = Cluster(StandbyPolicy())
    first, _ = cluster.on("a", "b")
    task = min(cluster.tasks[first])
    (partition,) = PLAN.partitions[task]
    request = CommitRequest(first, cluster.machine._actors[first].epoch, {partition: CommittedOffset(7, "")}, 1)
    cluster(CommitRequested(request))
    assert CommitOffsets(request) in cluster.reported
    cluster(ActorLost(first, may_write_s=0.0))
    cluster(ActorFenced(first))
    cluster(*(ActorUp(name, "c") for name in cluster.starts()))
    assert not any(task in tasks for name, tasks in cluster.tasks.items() if name != first)
    cluster(outcome(request))
    assert any(task in tasks for name, tasks in cluster.tasks.items() if name != first)
