"""The reference of the commands, from their Typer definitions: what ``penstock COMMAND --help`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

HEAD = """# All commands and options

What `penstock COMMAND -h` shows. [Commands](../COMMANDS.md) explains how they belong together.
"""


def page() -> str:
    """Returns the text of the page."""
    from penstock.cli.main import app

    return HEAD + "".join(_sections(typer.main.get_command(app), "penstock"))


def _sections(command: Any, name: str) -> Iterator[str]:
    context = command.context_class(command, info_name=name)
    if hasattr(command, "list_commands"):
        for each in command.list_commands(context):
            if not (found := command.get_command(context, each)).hidden:
                yield from _sections(found, f"{name} {each}")
        return
    yield f"\n## `{name}`\n\n{command.help or ''}\n\n"
    yield f"```\n{name} {' '.join(command.collect_usage_pieces(context))}\n```\n\n"
    if rows := [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]:
        yield "| | |\n|---|---|\n" + "".join(rows)


def _row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    names = [parameter.metavar or parameter.name] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    text = " ".join((getattr(parameter, "help", None) or "").split()).rstrip(".").replace("|", r"\|")
    default = parameter.default
    shown = "" if default in (None, False, ()) or callable(default) else f" Default: `{default}`."
    return f"| {', '.join(f'`{name}`' for name in names)} | {text}.{shown} |\n"
