"""Output of commands: JSON for programs, and plain text if the output is not a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console

from penstock.api.encoding import to_json
from penstock.cluster.findings import Level
from penstock.common.errors import ConfigError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read")]
LEVEL_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.FAULT: "red"}
_PIPED_WIDTH = 200


def console(stderr: bool = False, **more: Any) -> Console:
    """Returns standard output, or standard error: the consoles of all commands are made here. A table that goes into a
    file or a pipe is not cut to the width of a terminal.

    Colours are shown on a terminal unless ``NO_COLOR`` is set, and elsewhere only if ``FORCE_COLOR`` is set.
    ``FORCE_COLOR`` does not make a pipe count as a terminal. ``more``: arguments of ``Console``.
    """
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    forced = _is_set("FORCE_COLOR") and not _is_set("NO_COLOR")
    colours: Literal["auto", "standard"] | None = "auto" if is_terminal else "standard" if forced else None
    made = Console(stderr=stderr, force_terminal=is_terminal, color_system=colours, **more)
    if not is_terminal and "COLUMNS" not in os.environ:
        made.width = max(_PIPED_WIDTH, shutil.get_terminal_size().columns)
    return made


def _is_set(name: str) -> bool:
    return os.environ.get(name, "") != ""


def print_json(value: Any) -> None:
    """Print one JSON document over several lines."""
    typer.echo(msgspec.json.format(to_json(value), indent=2).decode())


def shown(value: Any) -> str:
    """Returns text unchanged, and any other object as the JSON that the HTTP API shows (None as ``null``)."""
    return value if isinstance(value, str) else to_json(value).decode()


def confirm(question: str, err: bool = False) -> None:
    """Ask on standard output, or standard error, and end the command unless the answer is yes.

    Raises ConfigError if standard input ends without an answer, as in a job of a scheduler.
    """
    try:
        agreed = typer.confirm(question, err=err)
    except typer.Abort:
        if sys.stdin.isatty():  # Ctrl-C, or Ctrl-D
            raise
        raise ConfigError("\nstandard input has no answer: give --yes to do this without a question") from None
    if not agreed:
        raise typer.Abort
