"""Measures how long commits keep records waiting: ``python -m benchmarks.commit_stops``; ``run.py`` calls it too."""

from __future__ import annotations

from typing import IO, Annotated, Any

import typer
from rich.console import Console

from benchmarks.data import KEYS, PARTITIONS, payments_of_users
from benchmarks.penstock_side import PenstockSide
from benchmarks.report import Grid, Spread, exit_if_wrong, to_terminal
from benchmarks.rig import Rig, rig
from penstock.actors.commit_stops import CommitStops

INTERVAL_MS = 500
"""At hundreds of thousands of records a second every commit has nearly all keys: 25 k in each of four tasks."""


class _Stops:
    """A hook that keeps the stops that the side reports."""

    def __init__(self) -> None:
        self.found = CommitStops()

    def __call__(self, event: dict[str, Any], side: IO[str]) -> None:
        if event["event"] == "stops":
            self.found = CommitStops(**{name: event[name] for name in CommitStops.__dataclass_fields__})


def measure(made: Rig, repeat: int) -> tuple[list[CommitStops], list[str]]:
    """The stops of ``count`` at full speed, run by run, without the last commit; and how outputs were wrong."""
    found, wrong = [], []
    for _ in range(repeat):
        hook = _Stops()
        state = made.work / "penstock-state"
        side = PenstockSide(made.records, made.bootstrap_servers, state, commit_interval_ms=INTERVAL_MS).side()
        _, differing = made.run(side, "count", hook)
        found.append(hook.found)
        wrong += differing
    return found, wrong


def table(runs: list[CommitStops]) -> Grid:
    """One row: medians of the runs, with their range."""
    counts = [str(sum(run.commits for run in runs)), str(sum(run.stops for run in runs))]
    names = ("p50_ms", "p99_ms", "max_ms", "per_commit_avg_ms", "per_commit_max_ms")
    times = [Spread.of([getattr(run, name) for run in runs]).text(".1f") for name in names]
    headings = (
        "commits", "stops", "stop: p50 ms", "p99 ms", "max ms", "all stops of a commit: mean ms", "max ms",
    )  # fmt: skip
    return headings, [counts + times]


def main(
    records: Annotated[int, typer.Option(min=1000, help="Number of records in the topic.")] = 4_000_000,
    keys: Annotated[int, typer.Option(min=1, help="Number of keys.")] = KEYS,
    repeat: Annotated[int, typer.Option(min=1, help="Number of runs.")] = 1,
) -> None:
    """Measure nothing but the stops. Exit code 1 when an output is wrong."""
    console = Console()
    with rig(payments_of_users(records, keys), console) as made:
        stops, wrong = measure(made, repeat)
    title = f"Stops for commits: count, {keys:,} keys, {PARTITIONS} tasks, a commit every {INTERVAL_MS} ms"
    to_terminal(console, title, table(stops))
    exit_if_wrong(console, wrong)


if __name__ == "__main__":
    typer.run(main)
