"""``penstock backfill``: the history of an application's topics by Spark, the rest by the application itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from penstock.cli.loading import load_application
from penstock.cli.spark_options import ConfOption, MasterOption, spark_place
from penstock.common.errors import ConfigError

if TYPE_CHECKING:
    from penstock.pipeline.backfill.backfill import BackfillReport
    from penstock.pipeline.spark.spark_progress import Progress

_LATEST = "latest"
_INTERRUPTED = 130
_LINE_EACH_S = 10.0


def register(app: typer.Typer) -> None:
    """Mount ``backfill`` on the root."""
    app.command("backfill")(_backfill)


def _backfill(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Such as examples.word_count:app")],
    until: Annotated[str, typer.Option(help="End of the history: latest, the present end of every topic")] = _LATEST,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Process what the topics hold with Spark; the application, which must be stopped, then continues from there."""
    if until != _LATEST:
        raise ConfigError(f"--until {until!r}: only 'latest' is known")
    application = load_application(target)
    console = Console()
    try:
        from penstock.pipeline.backfill.backfill import backfill
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'penstock-streams[spark]'") from error
    try:
        with _progress(console) as progress:
            report = backfill(application.topology, application.config, spark_place(master, conf), progress)
    except KeyboardInterrupt:
        Console(stderr=True).print(
            f"The backfill of {application.application_id} was interrupted. Run it again: state and offsets come "
            "out the same; results that it had written are written again",
            soft_wrap=True,
            markup=False,
        )
        raise typer.Exit(_INTERRUPTED) from None
    console.print(summary(report))


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    """Shows each step and its progress: by a bar on a terminal, as lines elsewhere."""
    if not console.is_terminal:
        yield Lines(partial(print, flush=True), time.monotonic)
        return
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    with Bars(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        shown = bars.add_task("", total=None)
        yield lambda step, done, total: bars.update(shown, description=step, completed=done, total=total or None)


class Lines:
    """Prints a line at the beginning of each step, and one with its progress each ``_LINE_EACH_S`` seconds."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._write = write
        self._clock = clock
        self._step = ""
        self._at = 0.0

    def __call__(self, step: str, done: int, total: int) -> None:
        """Take a report: see :data:`~penstock.pipeline.spark.spark_progress.Progress`."""
        now = self._clock()
        if step != self._step:
            self._write(step)
        elif total and now - self._at >= _LINE_EACH_S:
            self._write(f"{step}: {done} of {total} tasks of Spark done")
        else:
            return
        self._step, self._at = step, now


def summary(report: BackfillReport) -> Table:
    """Returns a table that shows people what a backfill did."""
    stages = "1 stage" if report.stages == 1 else f"{report.stages} stages"
    table = Table(title=f"Backfill: {stages} in {report.seconds:.1f} s", title_justify="left", box=None)
    table.add_column("")
    table.add_column("topic")
    table.add_column("records", justify="right")
    for what, counts in (("read", report.read), ("written", report.written), ("state", report.changelog_rows)):
        for topic, count in sorted(counts.items()):
            table.add_row(what, topic, f"{count:,}")
    if report.dropped:
        table.add_row("dropped", "", f"{report.dropped:,}")
    for partition, offset in sorted(report.committed.items()):
        table.add_row("committed", str(partition), f"{offset:,}")
    return table
