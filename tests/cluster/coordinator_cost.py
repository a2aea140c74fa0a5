"""``python -m tests.cluster.coordinator_cost``: the microseconds that the coordinator's state machine takes an event.

Eight tasks to an actor, exactly once. The coordinator hears of each actor twice a second.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import count, cycle

from penstock.actors.commit_messages import CommitRequest
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.events import (
    ActorAssigned,
    ActorFenced,
    ActorLost,
    ActorReported,
    ActorUp,
    AssignTasks,
    ClusterResized,
    CommitRequested,
    Event,
    FenceActor,
    GroupAssigned,
    SetTimer,
    StartActor,
    Timer,
    TimerFired,
)
from penstock.cluster.status import ApplicationState
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan

_SIZES = (24, 200, 1000)
_TASKS_PER_ACTOR = 8
_TIMES = 500
_LOSSES = 10


class Cluster:
    """A coordinator whose instructions are carried out at once. ``events``: the number of events it was fed."""

    def __init__(self, tasks: int) -> None:
        plan = TaskPlan(tuple(SubtopologyTasks(sub, {f"t{sub}": tasks // 2}, stateful=True) for sub in range(2)))
        self.machine = Coordinator(plan, None, 1, exactly_once=True)
        self.reports: dict[str, ActorReported] = {}
        self.events = 0
        self.feed(GroupAssigned(plan.reads, b"member"), ClusterResized(tasks // _TASKS_PER_ACTOR))

    def feed(self, *events: Event) -> None:
        """Feeds these events, and all that follow from them."""
        waiting = deque(events)
        while waiting:
            self.events += 1
            for instruction in self.machine.handle(waiting.popleft()):
                match instruction:
                    case StartActor(name):
                        waiting.append(ActorUp(name))
                    case AssignTasks(name, epoch, tasks):
                        self.reports[name] = ActorReported(name, tasks, epoch)
                        waiting += [ActorAssigned(name, epoch), self.reports[name]]
                    case FenceActor(name):
                        waiting.append(ActorFenced(name))
                    case SetTimer(Timer.REPLACE_ACTORS as timer):
                        waiting.append(TimerFired(timer))
                    case _:
                        pass


def microseconds(cluster: Cluster, feed: Callable[[], object], times: int) -> float:
    """Returns the average time (microseconds) that an event takes, of those that ``feed`` leads to."""
    before, begun = cluster.events, time.perf_counter()
    for _ in range(times):
        feed()
    return (time.perf_counter() - begun) / (cluster.events - before) * 1e6


def row(tasks: int) -> str:
    """Returns the measurements for this number of tasks as a row of the table."""
    cluster, numbers = Cluster(tasks), count(1)
    machine = cluster.machine
    assert machine.state is ApplicationState.RUNNING
    names = cycle(machine.actors)

    def ask() -> None:
        name = next(names)
        cluster.feed(CommitRequested(CommitRequest(name, cluster.reports[name].epoch, {}, next(numbers))))

    reported = microseconds(cluster, lambda: cluster.feed(cluster.reports[next(names)]), _TIMES)
    asked = microseconds(cluster, ask, _TIMES)
    lost = microseconds(cluster, lambda: cluster.feed(ActorLost(machine.actors[0])), _LOSSES)
    assert machine.state is ApplicationState.RUNNING
    return f"| {tasks} | {len(machine.actors)} | {reported:.1f} | {asked:.0f} | {lost:.0f} |"


if __name__ == "__main__":
    print("| tasks | actors | a report as before | a request for the group metadata | an actor lost and replaced |")
    print("|--:|--:|--:|--:|--:|")
    for size in _SIZES:
        print(row(size), flush=True)
