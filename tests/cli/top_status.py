"""A status with a task in each state, and processes that send it, for tests of ``penstock top``. Loads no Ray."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection

from penstock.actors.commit_stops import CommitStops
from penstock.actors.status import StandbyStatus, TaskState
from penstock.common.ids import TaskId
from tests.cluster.test_findings import actor, application, task

RESTORING = task(
    3, state=TaskState.RESTORING, behind_s=None, restore_remaining=300, restore_total=700, restore_rate=25.0
)
STATUS = application(
    actor("one", task(0, 500, 41.2, busy=0.6), task(1, 7, 0.2), busy=0.95, commits=12, commit_stops=CommitStops(
        minute_p50_ms=1.25, minute_max_ms=30.5
    )),
    actor("two", task(2), RESTORING, standbys=(StandbyStatus(TaskId(0, 0), 12), StandbyStatus(TaskId(0, 1), 0))),
    unhosted={TaskId(0, 4): "two is starting"},
    http_address="http://127.0.0.1:8080",
)  # fmt: skip


def talk_once_and_die(application: str, to: Connection) -> None:
    """A process that Ray ends at once, as it does when its cluster is lost."""
    to.send(("status", STATUS))
    os._exit(1)


def talk_of_troubles(application: str, to: Connection) -> None:
    for answer in (("unconnected", "no cluster"), ("status", STATUS), ("silent", "restarting"), ("gone", application)):
        to.send(answer)
    to.poll(None)
