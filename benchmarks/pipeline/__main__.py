"""All benchmarks of the data pipeline: ``python -m benchmarks.pipeline`` writes their section of the page.

Each part is measured in a process of its own, so that none inherits the JVM, the memory or the Ray of another.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.pipeline import archive, audit, checkpoints, history, ingest, live_loss
from benchmarks.pipeline.figures import Figure, section
from benchmarks.pipeline.job import USERS
from benchmarks.report import PIPELINE_SECTION, surroundings, write_section
from benchmarks.run import PAGE
from penstock.pipeline.ingest.contracts import FileFormat

MASTER = "local[2]"
_ROUNDS = 6
"""Checkpoints in a row."""


def _sized(of_five_million: float, share: float) -> int:
    return max(10_000, round(5_000_000 * of_five_million * share))


PARTS: dict[str, Callable[[float, int], list[Figure]]] = {
    "archive": lambda share, repeat: archive.measure(_sized(0.6, share), repeat),
    "archive-hot": lambda share, repeat: archive.measure(_sized(0.6, share), repeat, hot=True),
    "ingest": lambda share, repeat: ingest.measure(_sized(0.4, share), 4, FileFormat.PARQUET, False, repeat, MASTER),
    "ingest-objects": lambda share, repeat: ingest.measure(
        _sized(0.2, share), 4, FileFormat.JSON_LINES, True, repeat, MASTER
    ),
    "backfill": lambda share, repeat: history.measure(_sized(1, share), USERS, False, repeat, MASTER),
    "backfill-hot": lambda share, repeat: history.measure(_sized(0.8, share), USERS, True, repeat, MASTER),
    "checkpoints": lambda share, repeat: checkpoints.measure(_sized(1, share), _ROUNDS),
    "audit": lambda share, repeat: audit.measure(_sized(1, share)),
    "live-loss": lambda share, repeat: live_loss.measure(_sized(0.5, share), USERS, repeat),
}
"""Each part: figures by the share of the full size, and the number of runs."""


def main(
    share: Annotated[float, typer.Option(min=0.001, max=1, help="Share of the full size of 5 M records.")] = 1.0,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each side, alternated.")] = 3,
    only: Annotated[str, typer.Option(help="Parts, separated by commas.")] = ",".join(PARTS),
    markdown: Annotated[Path, typer.Option(help="Write the section into this page.")] = PAGE,
    result: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure the data pipeline."""
    console, chosen = Console(), only.split(",")
    if unknown := set(chosen) - PARTS.keys():
        raise typer.BadParameter(f"unknown parts {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if result is not None:  # the process of one part
        result.write_bytes(pickle.dumps(PARTS[only](share, repeat)))
        return
    where = {**surroundings(None), "pyspark": version("pyspark"), "Spark's master": MASTER}
    del where["java"]
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for part in chosen:
            console.rule(part)
            file = Path(folder) / part
            sizes = ["--share", str(share), "--repeat", str(repeat)]
            command = [sys.executable, "-m", "benchmarks.pipeline", *sizes, "--only", part, "--result", str(file)]
            subprocess.run(command, check=True)
            figures += pickle.loads(file.read_bytes())
    for figure in figures:
        console.print(" | ".join(figure.row()), soft_wrap=True, markup=False, highlight=False)
    write_section(markdown, PIPELINE_SECTION, section(figures, where))
    console.print(f"written to {markdown}")


if __name__ == "__main__":
    typer.run(main)
