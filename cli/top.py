"""``penstock top``: a running application on the whole screen: faults first, then the slowest tasks."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live

from penstock.api.processed import Processed, Rates
from penstock.api.slow_rows import Slow, slow_of
from penstock.api.top_rows import Top, top_of
from penstock.cli.applications import Application
from penstock.cli.output import AsJson, console, print_json
from penstock.cli.screen import terminal
from penstock.cli.top_frame import frame, plain
from penstock.cli.top_keys import View, keys_of, pressed
from penstock.cli.top_source import Heard, SilentError, StatusSource
from penstock.cluster.read_side import ApplicationState
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import TaskId
from penstock.common.shown import seconds_text

_FRAME_S = 0.5
_TERMINATED = 128 + signal.SIGTERM
_SILENT_AFTER_S = 3.0
"""Time without an answer from the coordinator after which the first line reports that."""


def register(app: typer.Typer) -> None:
    """Mount the command on the root."""
    app.command()(top)


def top(
    application: Application,
    once: Annotated[bool, typer.Option("--once", help="Print the figures once, as in a pipe")] = False,
    as_json: AsJson = False,
) -> None:
    """Watch an application: its faults, its tasks and actors, the slowest first, and why it is slow.

    On a terminal the view fills the screen until q or Ctrl-C; h lists the keys. Otherwise the figures are printed once.
    """
    if as_json or once or not can_draw():
        from penstock.cluster.client import control
        from penstock.cluster.ray_cluster import connections

        connections.connect_to(application)
        status = control.require_status(application)
        found, slow = top_of(status), slow_of(status, control.functions_of(application) or {})
        if as_json:
            print_json({**found.body(), **slow.body()})
        else:
            shown = console()
            shown.print(*plain(found, slow, shown.width), sep="\n", soft_wrap=True)
        return
    with closing(StatusSource(application)) as source:
        end = watch(source)
    if end:
        print(f"Application {application} {end}")


def can_draw() -> bool:
    """Returns True if standard output is a terminal that can move its cursor."""
    return sys.stdout.isatty() and not console().is_dumb_terminal


@dataclass(frozen=True)
class Answer:
    """The last answer of a coordinator, and the time of it; ``problem``: the error of a later question."""

    heard: Heard | None
    at_s: float
    at: datetime
    problem: str | None = None
    gone: bool = False


class Asking:
    """Takes one status after the other, in a thread of its own, so that keys work while no status comes. ``ask`` waits
    for the next one, and raises SilentError or ApplicationStateError."""

    def __init__(self, ask: Callable[[], Heard], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._clock_s = ask, clock_s
        self._last = Answer(None, clock_s(), datetime.now())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="top-status", daemon=True)

    @property
    def last(self) -> Answer:
        """The last answer, and what has happened since."""
        return self._last

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set() and not self._last.gone:
            self.look()

    def look(self) -> None:
        """Ask once."""
        try:
            heard = self._ask()
        except SilentError as error:
            self._last = replace(self._last, problem=str(error) or self._last.problem)
        except ApplicationStateError as error:
            self._last = replace(self._last, problem=str(error), gone=True)
        else:
            self._last = Answer(heard, self._clock_s(), datetime.now(), gone=heard.status.state.has_ended)


class Screen:
    """The content of the screen from one answer to the next: the figures, which a pause keeps, and the user's
    choices."""

    def __init__(self) -> None:
        self.view = View()
        self._top: Top | None = None
        self._slow = Slow()
        self._answer: Answer | None = None
        self._processed = Processed()
        self._rates: Rates[TaskId] = Rates()

    def take(self, answer: Answer) -> None:
        """Take the last answer, unless it is known or the view is paused."""
        known = self._answer.heard if self._answer is not None else None
        if answer.heard is not None and answer.heard is not known and not self.view.paused:
            status = answer.heard.status
            rates = self._rates.of(self._processed.of(status.tasks), answer.at_s)
            self._top, self._slow = top_of(status, rates), slow_of(status, answer.heard.functions)
        self._answer = answer

    def lines(self, width: int, height: int, now_s: float) -> Group:
        """Returns a frame for a window of this size."""
        drawn = frame(self._top, self.view, width, height, self._note(now_s), self._slow)
        self.view = replace(self.view, first=drawn.first)
        return Group(*drawn.lines)

    def _note(self, now_s: float) -> str:
        answer = self._answer
        if answer is None or now_s - answer.at_s < _SILENT_AFTER_S:
            return "" if self._top is not None else "Asking the application's coordinator …"
        since = f"since {answer.at:%H:%M:%S} ({seconds_text(now_s - answer.at_s)})"
        then = " All figures are from then." if self._top is not None else ""
        return f"The coordinator has not answered {since}: {answer.problem or 'no answer yet'}.{then}"


def watch(ask: Callable[[], Heard]) -> str:
    """Fill the screen until the user quits, or the application ends. Returns the end of a sentence about the latter,
    otherwise ''. Raises ApplicationStateError if it has failed, or was not there."""
    # Ray's own handler of SIGTERM ends the process at once, and leaves the terminal as it is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    # Nothing else may write to the screen; the lines of Ray would.
    with terminal(Path(os.devnull)) as console, _keys() as read_keys, Asking(ask) as asking:
        return _shown(console, read_keys, asking)


def _shown(console: Console, read_keys: Callable[[], bytes], asking: Asking) -> str:
    screen = Screen()
    with Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        while True:
            answer = asking.last
            if answer.gone:
                break
            screen.take(answer)
            live.update(screen.lines(console.width, console.height, time.monotonic()), refresh=True)
            for key in keys_of(read_keys()):
                screen.view = pressed(screen.view, key)
            if screen.view.quit:
                return ""
    return _end_of(answer)


def _end_of(answer: Answer) -> str:
    if answer.heard is None:
        raise ApplicationStateError(answer.problem or "the application has ended")
    status = answer.heard.status
    if status.state is ApplicationState.ERROR:
        raise ApplicationStateError(f"application {status.application_id!r} has ended in ERROR: {status.error}")
    return "has ended"


def _no_keys() -> bytes:
    time.sleep(_FRAME_S)
    return b""


@contextmanager
def _keys() -> Iterator[Callable[[], bytes]]:
    """Yields a function that waits for keys, at most until the next frame is due. Meanwhile the terminal hands over
    each key at once, and does not show it; Ctrl-C still interrupts."""
    number = sys.stdin.fileno() if sys.stdin.isatty() else None
    if number is None:
        yield _no_keys
        return
    former = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield lambda: os.read(number, 1024) if select.select([number], [], [], _FRAME_S)[0] else b""
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, former)
