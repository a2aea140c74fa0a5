"""penstock's side of ``recovery.py``: an application whose input is empty and whose changelog is not, until all of its
tasks run. Prints the events that ``measure.py`` reads, and what its store has of some users."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import ray
import typer

import penstock as ps
from benchmarks.data import PARTITIONS
from benchmarks.measure import Side
from benchmarks.penstock_side import ENVIRONMENT, NAME, processes, report, status_of, stream_actor
from benchmarks.workloads import COUNT_STORE, count
from penstock.cluster.names import NAMESPACE
from penstock.cluster.read_side import TaskState

RESTORE = "restore"
SAMPLED = 20_000
"""Users whose counts are compared. As in ``java/Bench.java``."""
_LOOK_EVERY_S, _LOOK_CLOSELY_S = 0.1, 0.01


def side_of_penstock(records: int, bootstrap_servers: str, state: Path) -> Side:
    """penstock in one stream actor, every setting that bears on speed at its default."""

    def command(workload: str, application_id: str, output: str) -> Sequence[str]:
        arguments = (str(records), bootstrap_servers, application_id, output, str(state))
        return [sys.executable, "-m", "benchmarks.recovery_side", *arguments]

    return Side(NAME, command, ENVIRONMENT)


def main(
    records: Annotated[int, typer.Argument(help="Number of records in the changelog.")],
    bootstrap_servers: Annotated[str, typer.Argument(help="Address of the broker.")],
    application_id: Annotated[str, typer.Argument(help="application.id")],
    output: Annotated[str, typer.Argument(help="Topic to write to.")],
    state: Annotated[Path, typer.Argument(help="state.dir")],
) -> None:
    """Restore everything once."""
    ray.init(
        address="local", namespace=NAMESPACE, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
    )
    application = ps.KafkaStreams(
        count(output),
        {
            "application.id": application_id,
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(state),
            "application.server": "",
            "tasks.per.actor": PARTITIONS,
        },
    )
    application.start()
    try:
        _follow(application, records)
        _report_sample(application)
    finally:
        application.close()
        ray.shutdown()
    report("closed", time.time() * 1000)


def _follow(application: ps.KafkaStreams, records: int) -> None:
    """Print the events up to ``processed``. ``first`` is early, for the look before: the tasks restored since then."""
    actor = stream_actor(application)
    before_ms = begun_ms = time.time() * 1000
    begun = half = False
    while True:
        asked_ms = time.time() * 1000
        tasks = status_of(actor).tasks
        now_ms = time.time() * 1000
        left = sum(task.restore_remaining for task in tasks)
        if not begun and len(tasks) == PARTITIONS and left:
            begun, begun_ms = True, before_ms
            report("workers", before_ms, pids=processes())
            report("first", before_ms)
        if begun and not half and left <= records // 2 and all(task.restore_total for task in tasks):
            half = True
            report("half", now_ms)
        if begun and not left and all(task.state is TaskState.RUNNING for task in tasks):
            break
        before_ms = asked_ms
        left_s = (now_ms - begun_ms) / 1000 * left / max(1, records - left) if begun else 0.0
        time.sleep(_LOOK_EVERY_S if left_s > 3 * _LOOK_EVERY_S else _LOOK_CLOSELY_S)
    report("processed", now_ms, records=records)


def _report_sample(application: ps.KafkaStreams) -> None:
    application.wait_until_running()
    store = application.store(COUNT_STORE)
    for user, found in store.get_many(f"user-{number}" for number in range(SAMPLED)).items():
        report("sample", time.time() * 1000, user=int(user.removeprefix("user-")), count=found)


if __name__ == "__main__":
    typer.run(main)
