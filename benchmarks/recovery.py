"""Measures how fast a store is restored from its changelog, by both sides: ``python -m benchmarks.recovery``.

Each side has a changelog of its own with the same records: those that ``count`` wrote, had it counted as many payments.
Every run begins without local state and ends when all tasks run again.
"""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from struct import Struct
from typing import IO, Annotated, Any

import typer
from rich.console import Console

from benchmarks.baseline import Jdk, build, find_jdk
from benchmarks.data import INPUT, LARGE_KEYS, LARGE_RECORDS, PARTITIONS, Dataset, Row, payments
from benchmarks.generate import fill
from benchmarks.measure import BenchmarkError, Run, Side, run_side
from benchmarks.recovery_side import RESTORE, SAMPLED, side_of_penstock
from benchmarks.report import comparison, exit_if_wrong, surroundings, to_markdown, to_terminal
from benchmarks.rig import broker
from benchmarks.workloads import COUNT_STORE
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients

_COUNT = Struct(">q").pack


def changelog(records: int, users: int) -> Iterator[Row]:
    """Yields the changelog of ``count`` without a cache: the user, how often it has paid by now, and when."""
    counts = array("I", bytes(4 * users))
    for key, _, timestamp in payments(records, users):
        user = int(key[5:])
        counts[user] += 1
        yield key, _COUNT(counts[user]), timestamp


def sample(records: int, users: int) -> dict[int, int]:
    """Returns the last count of each sampled user who has one."""
    last: dict[int, int] = {}
    for key, _, _ in payments(records, users):
        user = int(key[5:])
        if user < SAMPLED:
            last[user] = last.get(user, 0) + 1
    return last


class Sample:
    """A hook that keeps what a side reports of its store."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def __call__(self, event: dict[str, Any], side: IO[str]) -> None:
        if event["event"] == "sample":
            self.counts[event["user"]] = event["count"]

    def differences(self, side: str, expected: Mapping[int, int]) -> list[str]:
        """Returns the differences from ``expected``, in one line; empty if there are none."""
        wrong = [user for user in self.counts.keys() | expected.keys() if self.counts.get(user) != expected.get(user)]
        if not wrong:
            return []
        return [f"{side}: the store has another count of {len(wrong)} users: {sorted(wrong)[:3]}, …"]


class Recovery:
    """A broker with a changelog for each side. ``restore`` may be called any number of times."""

    def __init__(self, work: Path, bootstrap_servers: str, records: int, users: int, console: Console) -> None:
        self.work, self.records, self.users = work, records, users
        self._console = console
        self._clients = ConfluentClients(bootstrap_servers, "benchmarks")
        self._admin = self._clients.admin()
        self._bootstrap_servers = bootstrap_servers
        self._dataset = Dataset("changelog", records, users, {})
        self._expected = sample(records, users)

    def sides(self, jdk: Jdk | None) -> list[tuple[Side, Path]]:
        """Returns each side and the directory of its state. Kafka Streams comes first, if there is a ``jdk``."""
        state = self.work / "penstock-state"
        sides = [(side_of_penstock(self.records, self._bootstrap_servers, state), state)]
        if jdk is not None:
            java = build(jdk, self.work / "java", self.records, self._bootstrap_servers, "at_least_once")
            sides.insert(0, (java.side(), java.state))
        return sides

    def fill(self, side: Side) -> None:
        """Write the changelog of ``side``, and make its other topics."""
        application_id = application_id_of(side)
        topic = f"{application_id}-{COUNT_STORE}-changelog"
        settings = {INPUT: {}, f"{application_id}-output": {}, topic: {"cleanup.policy": "compact"}}
        self._admin.create_topics([NewTopic(name, PARTITIONS, 1, configs) for name, configs in settings.items()])
        producer = self._clients.producer()
        with self._console.status(f"Writing the changelog of {side.name}") as status:

            def report(done: int) -> None:
                status.update(f"Writing the changelog of {side.name}: {done:,} of {self.records:,}")

            fill(producer, topic, changelog(self.records, self.users), report)
        producer.close()

    def restore(self, side: Side, state: Path) -> tuple[Run, list[str]]:
        """Run once from nothing. Returns the run, and how the store is wrong, if it is."""
        shutil.rmtree(state, ignore_errors=True)
        application_id, hook = application_id_of(side), Sample()
        with self._console.status(f"{side.name}: {RESTORE}"):
            run = run_side(
                side, RESTORE, self._dataset, application_id, f"{application_id}-output", self._admin,
                hook=hook, settled=lambda: True,
            )  # fmt: skip
        return run, hook.differences(side.name, self._expected)


def application_id_of(side: Side) -> str:
    return f"bench-{RESTORE}-{side.name.split()[0].lower()}"


def main(
    records: Annotated[int, typer.Option(min=1000, help="Records in the changelog.")] = LARGE_RECORDS,
    users: Annotated[
        int | None, typer.Option(min=1, help="Number of users; by default so large that most pay once.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each side, alternated.")] = 3,
    java: Annotated[bool, typer.Option("--java/--without-java", help="Run Kafka Streams too.")] = True,
    results: Annotated[Path | None, typer.Option(help="Write every single run to this file, as JSON.")] = None,
) -> None:
    """Compare how fast a store is restored from nothing. Exit code 1 when a side fails or restores something wrong."""
    console = Console()
    users = users or records * LARGE_KEYS // LARGE_RECORDS
    runs: list[Run] = []
    wrong: list[str] = []
    try:
        jdk = find_jdk() if java else None
        with broker(console) as (work, address):
            made = Recovery(work, address, records, users, console)
            sides = made.sides(jdk)
            for side, _ in sides:
                made.fill(side)
            for _ in range(repeat):
                for side, state in sides:
                    run, differing = made.restore(side, state)
                    runs.append(run)
                    wrong += differing
                    console.print(f"{side.name:20} {run.rate:10,.0f}/s  {run.cpu_us():5.1f} µs CPU/record")
    except BenchmarkError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    if results is not None:
        results.write_text(json.dumps([asdict(run) for run in runs], indent=1))
    exit_if_wrong(console, wrong)
    to_terminal(console, "Restore", comparison(runs))
    for name, value in surroundings(jdk.version if jdk else None).items():
        console.print(f"{name}: {value}", highlight=False)
    console.print(to_markdown(comparison(runs)), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
