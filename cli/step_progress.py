"""Shows the steps of a backfill or an audit, and the progress of each: by a bar on a terminal, as lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from penstock.cli import output
from penstock.common.step_progress import TASKS

if TYPE_CHECKING:
    from penstock.common.step_progress import Progress, StepProgress

_LINE_EACH_S = 10.0


@contextmanager
def shown_progress(console: Console | None = None) -> Iterator[Progress]:
    """Shows each step and its progress on ``console``: by a bar on a terminal, as lines elsewhere. None: on standard
    error."""
    console = console or output.console(stderr=True)
    if not console.is_terminal:
        yield Lines(partial(print, file=console.file, flush=True), time.monotonic)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[numbers]}"),
    )
    with Bars(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        shown = bars.add_task("", total=None, numbers="")

        def show(now: StepProgress) -> None:
            numbers = in_numbers(now) if now.total else ""
            bars.update(shown, description=now.step, completed=now.done, total=now.total or None, numbers=numbers)

        yield show


def in_numbers(now: StepProgress) -> str:
    """Returns the numbers of a step's progress in words."""
    rate = "" if now.per_second is None else f", {now.per_second:,.0f} {now.unit}/s"
    left = "" if now.left_s is None else f", {timedelta(seconds=round(now.left_s))} left"
    # The total is that of the offsets, and some offsets have no record.
    most = "" if now.unit == TASKS else "at most "
    return f"{now.done:,} of {most}{now.total:,} {now.unit}{rate}{left}"


class Lines:
    """Prints a line at the beginning of each step, and one with its progress each ``_LINE_EACH_S`` seconds."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._write = write
        self._clock = clock
        self._step = ""
        self._at = 0.0

    def __call__(self, now: StepProgress) -> None:
        """Take a report: see :data:`~penstock.common.step_progress.Progress`."""
        at = self._clock()
        if now.step != self._step:
            self._write(now.step)
        elif now.total and at - self._at >= _LINE_EACH_S:
            self._write(f"{now.step}: {in_numbers(now)}")
        else:
            return
        self._step, self._at = now.step, at
