"""Kafka Streams on Java and penstock, side by side in one run: ``python -m benchmarks.run``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import penstock_side
from benchmarks.baseline import build
from benchmarks.data import KEYS
from benchmarks.measure import BenchmarkError, Run, Side
from benchmarks.report import Grid, comparison, surroundings, to_markdown, to_terminal
from benchmarks.rig import Rig, load_average, rig
from benchmarks.workloads import WORKLOADS

_LEGEND = """\
Times run from the first record that is processed until every result and changelog record is acknowledged and the
input's offsets are committed up to the end, as seen on the broker: start-up is left out, the last flush and commit are
in.
"Second half" runs from half of the records to all of them, without the last commit: the JVM is warm by then.
CPU is user and system time over the same span; memory is the largest resident set of the process. "worker" is the JVM,
and penstock's stream actor; "others" are penstock's coordinator and HTTP actor. Figures are the median of the runs,
with their range; "times as fast" compares each penstock run with the Java run before it. One stream thread, one stream
actor; caches and commit intervals at their defaults on both sides. Each run's output was compared with what plain
Python makes of the same records."""


def main(
    records: Annotated[int, typer.Option(min=1000, help="Number of records in the topic.")] = 4_000_000,
    keys: Annotated[int, typer.Option(min=1, help="Number of keys.")] = KEYS,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each side, alternated.")] = 3,
    workloads: Annotated[str, typer.Option(help="Which of json, count, join, with commas.")] = ",".join(WORKLOADS),
    java: Annotated[bool, typer.Option("--java/--without-java", help="Whether to run Kafka Streams too.")] = True,
    results: Annotated[Path | None, typer.Option(help="Write every single run to this file, as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this file, as Markdown.")] = None,
) -> None:
    """Measure both sides and print the table. Exit code 1 when a side fails or writes something wrong."""
    console = Console()
    chosen = [name.strip() for name in workloads.split(",")]
    if unknown := set(chosen) - WORKLOADS.keys():
        raise typer.BadParameter(f"unknown workloads {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    try:
        where, runs, wrong = _measure(console, records, keys, repeat, chosen, java)
    except BenchmarkError as error:
        console.print(f"[red]{error}[/red]", highlight=False)
        raise typer.Exit(1) from None
    table = comparison(runs)
    to_terminal(console, f"{records:,} records, {keys:,} keys", table)
    if results is not None:
        results.write_text(json.dumps({"surroundings": where, "runs": [asdict(run) for run in runs]}, indent=1))
    if markdown is not None:
        markdown.write_text(_page(where, table))
    for difference in wrong:
        console.print(f"[red]wrong output: {difference}[/red]", highlight=False)
    if wrong:
        raise typer.Exit(1)
    console.print(f"outputs of all {len(runs)} runs verified")


def _measure(
    console: Console, records: int, keys: int, repeat: int, workloads: Sequence[str], java: bool
) -> tuple[dict[str, str], list[Run], list[str]]:
    runs: list[Run] = []
    wrong: list[str] = []
    with rig(records, keys, console) as made:
        sides, version = _sides(made, java)
        where = {
            **surroundings(version),
            "load before": f"{load_average():.2f}",
            "records": f"{records:,} of about 120 B, {keys:,} keys, 4 partitions",
        }
        for workload in workloads:
            for _ in range(repeat):
                for side in sides:
                    run, differing = made.run(side, workload)
                    runs.append(run)
                    wrong += differing
                    console.print(f"{workload:6} {side.name:20} {run.rate:10,.0f}/s  {run.cpu_us():5.1f} µs CPU/record")
    return where, runs, wrong


def _sides(made: Rig, java: bool) -> tuple[list[Side], str | None]:
    ours = penstock_side.PenstockSide(made.records, made.bootstrap_servers, made.work / "penstock-state").side()
    if not java:
        return [ours], None
    baseline = build(made.work / "java", made.records, made.bootstrap_servers)
    return [baseline.side(), ours], baseline.version


def _page(where: dict[str, str], table: Grid) -> str:
    facts = "\n".join(f"- {name}: {value}" for name, value in where.items())
    return f"{facts}\n\n{to_markdown(table)}\n\n{_LEGEND}\n"


if __name__ == "__main__":
    typer.run(main)
