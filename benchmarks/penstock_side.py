"""penstock's side: one workload on a local Ray with one stream actor. Prints the events that ``measure.py`` reads.

Programs run as they are: nothing in the topology counts records, since a ``peek`` would make the task decode keys and
values that the program never looks at. Progress is asked of the stream actor instead, so ``first`` is up to 10 ms early
and ``processed`` up to 10 ms late, both to penstock's disadvantage.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import psutil
import ray
import typer

import penstock as ps
from benchmarks.data import PARTITIONS
from benchmarks.measure import Side
from benchmarks.workloads import WORKLOADS
from penstock.actors.loop.lease import QuestionId
from penstock.cluster.coordinator_shell.stream_actor_handle import StreamActorHandle
from penstock.cluster.ray_cluster.connections import start_cluster
from penstock.cluster.read_side import ActorStatus
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import TopicPartition
from penstock.kafka.clients import ConfluentClients

NAME = "penstock"
ENVIRONMENT = {
    "RAY_worker_niceness": "0",  # else actors run at nice 15, while a JVM started from a shell runs at 0
    "RAY_USAGE_STATS_ENABLED": "0",
    "_TYPER_STANDARD_TRACEBACK": "1",  # the end of a plain traceback says what went wrong
}
_OFTEN_S, _SELDOM_S = 0.01, 0.1
_OF_NO_COORDINATOR = QuestionId(-1, 0, 0)  # an actor's lease is as long with this question as without it
_ROLES = {
    "ray::StreamActor": "worker",
    "ray::CoordinatorActor": "coordinator",
    "ray::HttpActor": "http",
    "raylet": "raylet",
    "gcs_server": "gcs",
}


@dataclass(frozen=True)
class PenstockSide:
    """Options of the command of this side, except workload, application and output.

    ``http``: with its HTTP server, which the Java side has not. ``hold``: when all is processed, wait for a line on
    standard input before closing. ``commit_interval_ms`` None is the default.
    """

    records: int
    bootstrap_servers: str
    state: Path
    http: bool = False
    hold: bool = False
    commit_interval_ms: int | None = None
    guarantee: str = "at_least_once"

    def side(self) -> Side:
        """penstock in one stream actor, every setting that bears on speed at its default."""
        return Side(NAME, self._command, ENVIRONMENT)

    def _command(self, workload: str, application_id: str, output: str) -> Sequence[str]:
        arguments = (workload, str(self.records), self.bootstrap_servers, application_id, output, str(self.state))
        hold = self.hold or WORKLOADS[workload].settles
        flags = [flag for flag, wanted in (("--http", self.http), ("--hold", hold)) if wanted]
        if self.commit_interval_ms is not None:
            flags += ["--commit-interval-ms", str(self.commit_interval_ms)]
        flags += ["--guarantee", self.guarantee]
        return [sys.executable, "-m", "benchmarks.penstock_side", *arguments, *flags]


@dataclass(frozen=True)
class Progress:
    """Number of the input's records that the application had processed at a moment (wall clock, ms)."""

    asked_ms: float
    answered_ms: float
    records: int


def main(
    workload: Annotated[str, typer.Argument(help="One of those in workloads.py.")],
    records: Annotated[int, typer.Argument(help="Number of records in the input.")],
    bootstrap_servers: Annotated[str, typer.Argument(help="Address of the broker.")],
    application_id: Annotated[str, typer.Argument(help="application.id")],
    output: Annotated[str, typer.Argument(help="Topic to write to.")],
    state: Annotated[Path, typer.Argument(help="state.dir")],
    http: Annotated[bool, typer.Option("--http", help="Serve HTTP on a free port.")] = False,
    hold: Annotated[bool, typer.Option("--hold", help="Close only after a line on standard input.")] = False,
    commit_interval_ms: Annotated[int | None, typer.Option(help="commit.interval.ms; the default without it.")] = None,
    guarantee: Annotated[str, typer.Option(help="processing.guarantee")] = "at_least_once",
) -> None:
    """Process the whole input once."""
    start_cluster(log_to_driver=False, logging_level=logging.ERROR)
    program = WORKLOADS[workload]
    topology = program.topology(output)
    config = {
        "application.id": application_id,
        "bootstrap.servers": bootstrap_servers,
        "state.dir": str(state),
        "application.server": "127.0.0.1:0" if http else "",
        "processing.guarantee": guarantee,
        "tasks.per.actor": PARTITIONS * len(topology.subtopologies),
    }
    if commit_interval_ms is not None:
        config["commit.interval.ms"] = commit_interval_ms
    application = ps.KafkaStreams(topology, config)
    application.start()
    begun_ms = time.time() * 1000  # start() returns before the first record
    try:
        with ThreadPoolExecutor(1) as threads:
            server = threads.submit(_report_address, application) if http else None
            _follow(application, records, program.table, begun_ms)
            if server is not None:
                server.result()
        if hold:
            sys.stdin.readline()
    finally:
        application.close()
        ray.shutdown()
    report("closed", time.time() * 1000)


def _report_address(application: ps.KafkaStreams) -> None:
    application.wait_until_running()
    address = application.status().http_address
    report("http", time.time() * 1000, address=address, application=application.application_id)
    report("workers", time.time() * 1000, pids=processes())


def _follow(application: ps.KafkaStreams, records: int, table: str | None, begun_ms: float) -> None:
    """Print the events up to ``processed``. ``begun_ms`` is a moment before the first record, not long."""
    half = False
    last = Progress(begun_ms, begun_ms, 0)
    for progress in _progress(application, records, table):
        report("progress", progress.answered_ms, records=progress.records)
        if progress.records and not last.records:
            report("workers", last.asked_ms, pids=processes())
            report("first", last.asked_ms)
        if not half and progress.records >= records // 2:
            half = True
            report("half", _when(records // 2, last, progress))
        last = progress
    report("processed", last.answered_ms, records=last.records)
    report("stops", time.time() * 1000, **asdict(status_of(stream_actor(application)).commit_stops))


def _when(records: int, before: Progress, after: Progress) -> float:
    """The moment of ``records`` between two looks, as if the records came evenly."""
    share = (records - before.records) / (after.records - before.records)
    return before.answered_ms + share * (after.answered_ms - before.answered_ms)


def _progress(application: ps.KafkaStreams, records: int, table: str | None) -> Iterator[Progress]:
    """Looks at the stream actor until all is processed: often at the beginning and at the end, seldom in between."""
    actor = stream_actor(application)
    rows = _table_rows(application, table)
    done = 0
    begin = time.time()
    while done < records:
        asked = time.time()
        done = sum(max(0, task.records_processed - rows[task.task_id.partition]) for task in status_of(actor).tasks)
        now = time.time()
        yield Progress(asked * 1000, now * 1000, done)
        if not done:
            begin = now
        left_s = (records - done) * (now - begin) / done if done else 0.0
        time.sleep(_SELDOM_S if left_s > 3 * _SELDOM_S else _OFTEN_S)


def stream_actor(application: ps.KafkaStreams) -> StreamActorHandle:
    """Returns the one stream actor, as soon as Ray knows it: the coordinator's status may be a second later."""
    deadline = time.monotonic() + 60.0
    while not (actors := StreamActorHandle.find(application.application_id)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no stream actor of {application.application_id} after 60 s: {application.status()}")
        time.sleep(_OFTEN_S)
    return actors[0]


def status_of(actor: StreamActorHandle) -> ActorStatus:
    """Returns the status of the actor. Raises RuntimeError with the error that ended its loop."""
    try:
        status: ActorStatus = ray.get(actor.ray_handle.status.remote(_OF_NO_COORDINATOR))
    except ApplicationStateError:
        return ActorStatus(actor.actor_id, "", 0, 0, ())  # the coordinator has not started it yet
    if status.error is not None:
        raise RuntimeError(status.error)
    return status


def _table_rows(application: ps.KafkaStreams, table: str | None) -> list[int]:
    """Returns the number of rows of the table that each task reads in addition to the input."""
    if table is None:
        return [0] * PARTITIONS
    partitions = [TopicPartition(table, number) for number in range(PARTITIONS)]
    ends = ConfluentClients.of(application.config).admin().end_offsets(partitions)
    return [ends[partition] for partition in partitions]


def processes() -> dict[str, int]:
    """Pids by role: what runs for this application, and Ray's own two."""
    found: dict[str, int] = {}
    for process in psutil.Process().children(recursive=True):
        title = (process.cmdline() or [""])[0]
        for prefix, role in _ROLES.items():
            if title.startswith(prefix) or Path(title).name == prefix:
                found[role] = process.pid
    return found


def report(name: str, at_ms: float, **facts: object) -> None:
    """Print an event of that moment (wall clock, ms)."""
    print(json.dumps({"event": name, "at_ms": at_ms, **facts}, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    typer.run(main)
