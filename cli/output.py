"""Output of commands: JSON for programs, and plain text if the output is not a terminal."""

from __future__ import annotations

import os
import shutil
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from penstock.api.encoding import to_json

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read")]
_PIPED_WIDTH = 200


def console() -> Console:
    """Returns standard output. A table that goes into a file or a pipe is not cut to the width of a terminal."""
    made = Console()
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = max(_PIPED_WIDTH, shutil.get_terminal_size().columns)
    return made


def print_json(value: Any) -> None:
    """Print one JSON document over several lines."""
    typer.echo(msgspec.json.format(to_json(value), indent=2).decode())


def shown(value: Any) -> str:
    """Returns text unchanged, and any other object as the JSON that the HTTP API shows (None as ``null``)."""
    return value if isinstance(value, str) else to_json(value).decode()
