"""The job live and by Spark, over the same records: records/s, CPU, memory, and the time until the state serves.

``python -m benchmarks.pipeline.history --records 5000000`` prints one JSON line for each run.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import psutil
import ray
import typer
from rich.console import Console

import penstock as ps
from benchmarks.data import PARTITIONS
from benchmarks.generate import KEEP
from benchmarks.pipeline.figures import Figure, ratios
from benchmarks.pipeline.job import COUNTED, PRICED, RECORDS, USERS, page_views, topology
from benchmarks.pipeline.tree_meter import TreeMeter, TreeUsage
from benchmarks.rig import Rig, rig
from penstock.cluster.client.control import CoordinatorSilentError
from penstock.cluster.ray_cluster.connections import start_cluster
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients

APPLICATION, SERVERS = "PENSTOCK_BENCH_APPLICATION", "PENSTOCK_BENCH_SERVERS"
STATE_DIR = "PENSTOCK_BENCH_STATE_DIR"
_LOOK_S = 0.1
_CLOSE_S = 120.0


def application(
    application_id: str, bootstrap_servers: str, state_dir: Path, more: Mapping[str, Any] | None = None
) -> ps.KafkaStreams:
    """Returns the job as an application with the default settings and ``more``, and no HTTP server."""
    return ps.KafkaStreams(
        topology(),
        {
            "application.id": application_id,
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(state_dir),
            "application.server": "",
            **(more or {}),
        },
    )


def live(made: Rig, application_id: str) -> dict[str, Any]:
    """Process all records live. Returns the figures from the start of the application to the end of its lag."""
    app = application(application_id, made.bootstrap_servers, made.work / application_id)
    with local_ray(), TreeMeter(without=is_broker) as meter:
        begun = time.monotonic()
        app.start()
        first = begun_to_process(app)
        last = caught_up(app)
        app.close(_CLOSE_S)
        seconds = time.monotonic() - begun
    rate = made.records / (last - first)
    return _row("live", made.records, seconds, rate, meter.usage())


def by_spark(made: Rig, application_id: str, master: str) -> list[dict[str, Any]]:
    """Process all records by Spark, then start the application. Returns the figures of both."""
    state_dir = str(made.work / application_id)
    environment = os.environ | {APPLICATION: application_id, SERVERS: made.bootstrap_servers, STATE_DIR: state_dir}
    command = [sys.executable, "-m", "penstock.cli.main", "backfill", "benchmarks.pipeline.spark_job:app"]
    begun = time.monotonic()
    with TreeMeter(without=is_broker) as meter:
        subprocess.run([*command, "--master", master], env=environment, check=True, stdout=sys.stderr)
    seconds = time.monotonic() - begun
    rows = [_row("spark", made.records, seconds, made.records / seconds, meter.usage())]
    app = application(application_id, made.bootstrap_servers, made.work / application_id)
    with local_ray(), TreeMeter(without=is_broker) as meter:
        begun = time.monotonic()
        app.start()
        app.wait_until_running()
        serving = time.monotonic() - begun
        app.close(_CLOSE_S)
    return [*rows, _row("start after spark", made.records, serving, 0.0, meter.usage())]


def begun_to_process(app: ps.KafkaStreams) -> float:
    """Waits until a record is processed; returns the time then."""
    return _wait(app, until=1)


def caught_up(app: ps.KafkaStreams) -> float:
    """Waits until no task has a lag; returns the time then."""
    return _wait(app, until=None)


def _wait(app: ps.KafkaStreams, until: int | None) -> float:
    """Waits until ``until`` records are processed, or, with None, until no task has a lag; returns the time then."""
    while True:
        try:
            status = app.status()
        except CoordinatorSilentError:  # on a machine that is busy with other work
            continue
        if status.state.has_ended:
            raise RuntimeError(f"the application ended: {status.error}")
        done = sum(task.records_processed for task in status.tasks)
        if until is not None and done >= until:
            return time.monotonic()
        complete = len(status.tasks) == status.task_count > 0 and all(t.lags and t.lag == 0 for t in status.tasks)
        if until is None and complete and done:
            return time.monotonic()
        time.sleep(_LOOK_S)


def _row(how: str, records: int, seconds: float, rate: float, usage: TreeUsage) -> dict[str, Any]:
    return {
        "how": how,
        "records": records,
        "seconds": round(seconds, 1),
        "records_per_s": round(rate),
        "records_per_cpu_s": round(records / usage.cpu_s),
        "cpu_s": round(usage.cpu_s, 1),
        "cpu_s_of": {name: round(seconds, 1) for name, seconds in usage.cpu_of.items() if seconds > 1},
        "peak_mb": round(usage.peak_bytes / 1e6),
        "peak_mb_of": {name: round(size / 1e6) for name, size in usage.peak_of.items() if size > 50e6},
    }


def local_ray() -> ExitStack:
    """Returns a Ray on this machine, which ends with the context."""
    stack = ExitStack()
    start_cluster(log_to_driver=False, logging_level=logging.ERROR)
    stack.callback(ray.shutdown)
    return stack


def is_broker(process: psutil.Process) -> bool:
    """Returns True for the Java of Kafka."""
    return "kafka.Kafka" in process.cmdline()


def measure(records: int, users: int, hot: bool, repeat: int, master: str) -> list[Figure]:
    """Run the job live and by Spark, in turn."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    rows: dict[str, list[dict[str, Any]]] = {}
    with rig(page_views(records, users, hot), Console(stderr=True)) as made:
        admin = ConfluentClients(made.bootstrap_servers, "benchmarks").admin()
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, KEEP) for topic in (COUNTED, PRICED)])
        for number in range(repeat):
            for row in (live(made, f"live-{number}"), *by_spark(made, f"spark-{number}", master)):
                rows.setdefault(row["how"], []).append(row)
                print(json.dumps(row), flush=True)
    return _figures(rows, f"{made.records:,} records{', hot keys' if hot else ''}")


def _figures(rows: dict[str, list[dict[str, Any]]], shape: str) -> list[Figure]:
    def of(how: str, name: str) -> tuple[float, ...]:
        return tuple(row[name] for row in rows[how])

    serving = tuple(map(sum, zip(of("spark", "seconds"), of("start after spark", "seconds"), strict=True)))
    return [
        Figure("backfill", f"{shape}: records/s", of("spark", "records_per_s")),
        Figure("backfill", "records per CPU second", of("spark", "records_per_cpu_s")),
        Figure("live", "records per CPU second", of("live", "records_per_cpu_s")),
        Figure(
            "backfill", "beside live, per CPU second",
            ratios(of("spark", "records_per_cpu_s"), of("live", "records_per_cpu_s")), ".2f", at_least=0.9,
        ),
        Figure("backfill", "seconds until the application serves", serving, ".1f"),
        Figure("live", "seconds until the application serves", of("live", "seconds"), ".1f"),
        Figure("backfill", "beside live: times as fast", ratios(of("live", "seconds"), serving), ".2f", at_least=1.0),
        Figure("backfill", "peak memory of driver and executors, MB", of("spark", "peak_mb")),
        Figure("live", "peak memory of all processes, MB", of("live", "peak_mb")),
    ]  # fmt: skip


def main(
    records: Annotated[int, typer.Option(help="Number of page views.")] = RECORDS,
    users: Annotated[int, typer.Option(help="Number of users.")] = USERS,
    hot: Annotated[bool, typer.Option(help="Few users have most of the views.")] = False,
    repeat: Annotated[int, typer.Option(help="Number of pairs of runs.")] = 1,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
) -> None:
    """Run the job live and by Spark, one after the other."""
    for figure in measure(records, users, hot, repeat, master):
        print(" | ".join(figure.row()))


if __name__ == "__main__":
    typer.run(main)
