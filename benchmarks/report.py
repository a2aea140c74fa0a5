"""Shows measurements as tables for people: on the terminal, and as Markdown for ``docs/BENCHMARKS.md``."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Run


@dataclass(frozen=True)
class Spread:
    """Median and range of several measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Returns the spread of ``values``. Raises StatisticsError without any value."""
        return cls(statistics.median(values), min(values), max(values))

    def text(self, form: str = ",.0f") -> str:
        """Returns ``median (low–high)``; the median alone when there is nothing around it."""
        if self.low == self.high:
            return format(self.median, form)
        return f"{self.median:{form}} ({self.low:{form}}–{self.high:{form}})"


Grid = tuple[Sequence[str], list[list[str]]]
"""Headings and rows."""
PIPELINE_SECTION = "## Data pipeline"
"""The heading of the last section of the page, which ``make bench-pipeline`` writes alone."""


def comparison(runs: Sequence[Run]) -> Grid:
    """Returns a row per workload and side, and per workload the ratio of penstock to the other side, pair by pair."""
    headings = (
        "workload",
        "side",
        "k records/s",
        "second half, k/s",
        "CPU µs/record: worker",
        "others",
        "peak memory MB: worker",
        "others",
        "times as fast",
    )
    rows = []
    for workload in dict.fromkeys(run.workload for run in runs):
        ratios = pair_ratios(runs, workload)
        for side in dict.fromkeys(run.side for run in runs):
            of_side = [run for run in runs if (run.workload, run.side) == (workload, side)]
            others = sorted({role for run in of_side for role in run.usage} - {"worker"})
            rows.append(
                [
                    workload,
                    side,
                    Spread.of([run.rate / 1e3 for run in of_side]).text(".0f"),
                    Spread.of([run.second_half_rate / 1e3 for run in of_side]).text(".0f"),
                    Spread.of([run.cpu_us("worker") for run in of_side]).text(".1f"),
                    Spread.of([run.cpu_us(*others) for run in of_side]).text(".1f") if others else "–",
                    Spread.of([run.peak_mb("worker") for run in of_side]).text(".0f"),
                    Spread.of([run.peak_mb(*others) for run in of_side]).text(".0f") if others else "–",
                    Spread.of(ratios).text(".2f") if ratios and side == "penstock" else "",
                ]
            )
    return headings, rows


def pair_ratios(runs: Sequence[Run], workload: str) -> list[float]:
    """Returns the rate of penstock over that of the other side, for each pair of runs that followed one another."""
    ours = [run.rate for run in runs if run.workload == workload and run.side == "penstock"]
    theirs = [run.rate for run in runs if run.workload == workload and run.side != "penstock"]
    return [our / their for our, their in zip(ours, theirs, strict=True)] if theirs else []


def to_terminal(console: Console, title: str, grid: Grid) -> None:
    """Print a grid as a table."""
    headings, rows = grid
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < 2 else "right", no_wrap=number < 2)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def exit_if_wrong(console: Console, wrong: Sequence[str]) -> None:
    """Report all outputs that were wrong, and exit with code 1 if there is any."""
    for difference in wrong:
        console.print(f"wrong: {difference}", style="red", markup=False, highlight=False)
    if wrong:
        raise typer.Exit(1)


def to_markdown(grid: Grid) -> str:
    """Returns a grid as a Markdown table."""
    headings, rows = grid
    lines = [
        "| " + " | ".join(headings) + " |",
        "|" + "|".join("---" if n < 2 else "--:" for n in range(len(headings))) + "|",
    ]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def write_section(page: Path, heading: str, text: str) -> None:
    """Put ``text`` in place of the section ``heading`` (``## Name``) of ``page``, or at its end if it has none."""
    shown = page.read_text() if page.exists() else "# Benchmarks\n"
    before, found, after = shown.partition(f"{heading}\n")
    _, next_heading, rest = after.partition("\n## ") if found else ("", "", "")
    page.write_text(f"{before.rstrip()}\n\n{text.rstrip()}\n{next_heading}{rest}")


def surroundings(java: str | None) -> dict[str, str]:
    """Returns date, machine and versions; the load shows how much else the machine was doing."""
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "processor": f"{_cpu_model()}, {os.cpu_count()} cores, shared with the broker",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "load of the last minute": f"{os.getloadavg()[0]:.2f}",
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("ray", "confluent-kafka", "rocksdict", "orjson")},
        "java": java or "not run",
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"
