"""A status with a task in each state, and processes that send it, for tests of ``penstock top``. Loads no Ray."""

from __future__ import annotations

import os
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from penstock.actors.commit_stops import CommitStops
from penstock.actors.status import StandbyStatus, TaskState
from penstock.cli.top_source import Heard
from penstock.cluster.read_side import FunctionView
from penstock.common.ids import TaskId
from penstock.common.metric_names import NODE, STATE, THREAD
from tests.cluster.test_findings import actor, application, task

RESTORING = task(
    3, state=TaskState.RESTORING, behind_s=None, restore_remaining=300, restore_total=700, restore_rate=25.0
)
FUNCTIONS = {"enrich": FunctionView("mapper", "enrich", "/home/ada/shop/program.py", 12)}
_OPERATORS: Mapping[Any, float] = {
    (NODE, "busy-ratio", "enrich"): 0.5, (NODE, "records-rate", "enrich"): 1200.0, (NODE, "busy-ratio", "idle"): 0.0,
    (NODE, "busy-ratio", "ask"): 0.05, (NODE, "calls-in-flight", "ask"): 7,
    (STATE, "write-stall-duration-total", "counts"): 1500.0, (STATE, "write-stall-duration-total", "sums"): 1500.0,
    (STATE, "is-write-stopped", "counts"): 1, (STATE, "actual-delayed-write-rate", "counts"): 8_000_000,
    (STATE, "estimate-pending-compaction-bytes", "counts"): 3_000, (STATE, "block-cache-usage", "counts"): 64,
}  # fmt: skip
_TIME: Mapping[Any, float] = {
    (THREAD, "commit-ratio"): 0.02, (THREAD, "broker-wait-ratio"): 0.03, (THREAD, "idle-ratio"): 0.0,
    (THREAD, "gc-ratio"): 0.01, (THREAD, "gc-total"): 41, (THREAD, "gc-full-total"): 2,
    (THREAD, "gc-latency-max"): 12.5,
}  # fmt: skip
STATUS = application(
    actor("one", task(0, 500, 41.2, busy=0.6, measured=_OPERATORS), task(1, 7, 0.2, measured={
        (NODE, "busy-ratio", "enrich"): 0.25, (STATE, "write-stall-duration-total", "counts"): 500.0
    }), busy=0.93, measured=_TIME, commits=12, commit_stops=CommitStops(minute_p50_ms=1.25, minute_max_ms=30.5)),
    actor("two", task(2), RESTORING, standbys=(StandbyStatus(TaskId(0, 0), 12), StandbyStatus(TaskId(0, 1), 0))),
    unhosted={TaskId(0, 4): "two is starting"},
    http_address="http://127.0.0.1:8080",
)  # fmt: skip


def talk_once_and_die(application: str, to: Connection) -> None:
    """A process that Ray ends at once, as it does when its cluster is lost."""
    to.send(("heard", Heard(STATUS)))
    os._exit(1)


def talk_of_troubles(application: str, to: Connection) -> None:
    for answer in (
        ("unconnected", "no cluster"),
        ("heard", Heard(STATUS)),
        ("silent", "restarting"),
        ("gone", application),
    ):
        to.send(answer)
    to.poll(None)
