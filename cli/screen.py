"""Reserves the terminal for the table: all other output of this process goes to a file meanwhile."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from rich.console import Console, ConsoleDimensions


class Terminal(Console):
    """A console on the terminal itself, while standard output is redirected."""

    @property
    def size(self) -> ConsoleDimensions:
        """Size of the terminal's window now, 80 by 24 if it has no size. Rich would ask the standard streams."""
        columns, lines = os.get_terminal_size(self.file.fileno())
        return ConsoleDimensions(columns or 80, lines or 24)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        raise AttributeError("the terminal's window has the size that it has")


@contextlib.contextmanager
def terminal(log: Path) -> Iterator[Terminal]:
    """Yields the terminal of standard output. Until the block ends, standard output, and standard error if it is a
    terminal, go to ``log``: those of Python, of the threads of Ray that print the output of its workers, and of C
    code."""
    sys.stdout.flush()
    sys.stderr.flush()
    redirected = [stream.fileno() for stream in (sys.stdout, sys.stderr) if os.isatty(stream.fileno())]
    with contextlib.ExitStack() as stack:
        shown = stack.enter_context(os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8"))
        for number in redirected:
            saved = os.dup(number)
            stack.callback(_restore, saved, number)
        with log.open("ab", buffering=0) as file:
            for number in redirected:
                os.dup2(file.fileno(), number)
        yield Terminal(file=shown, force_terminal=True)


def _restore(saved: int, number: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(saved, number)
    os.close(saved)


def log_file(folder: Path, application_id: str) -> Path:
    """Creates a file in ``folder``, or among the temporary ones if this process cannot write to ``folder``."""
    name = f"{application_id}-{datetime.now().strftime('%Y%m%d-%H%M%S')}-"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number, path = tempfile.mkstemp(".log", name, folder)
    except OSError:
        number, path = tempfile.mkstemp(".log", name)
    os.close(number)
    return Path(path)
