"""docs/COMMANDS.md names the commands that print JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from penstock.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "COMMANDS.md").read_text()
READS_JSON = {"topic send"}


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each command that is not a group, with its name."""
    groups = getattr(command, "commands", None)
    if groups is None:
        yield name, command
    for each, found in (groups or {}).items():
        if not found.hidden:
            yield from commands(found, f"{name} {each}".strip())


def test_the_commands_that_print_json_are_those_that_the_page_lists() -> None:
    found = {
        name
        for name, command in commands(typer.main.get_command(app))
        if any("--json" in parameter.opts for parameter in command.params)
    }
    (listed,) = re.findall(r"These commands take `--json`.*?: (.+?)\.\n", PAGE, re.DOTALL)
    names = {" ".join(name.removesuffix(" --dry-run").split()) for name in re.findall(r"`([^`]+)`", listed)}
    assert names == found - READS_JSON
