"""``penstock explain``: the meaning of a log line or an error, and what to do. Needs no network."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from penstock.cli.output import AsJson, console, print_json
from penstock.common import explained
from penstock.common.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Mount ``explain`` on the root."""
    app.command()(explain)


def explain(
    message: Annotated[
        list[str] | None,
        typer.Argument(metavar="MESSAGE", help="A log line, an error, or a part of one; by default all are listed"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the meaning of a warning or an error, and what to do."""
    text = " ".join(message or []).strip()
    named = explained.find(text) if text else []
    found = named or explained.with_part(text)
    if not found:
        near = explained.nearest(text)
        raise ConfigError(f"nothing explains {text!r}" + (f"; there are: {', '.join(map(repr, near))}" if near else ""))
    if as_json:
        print_json(found)
    elif named or len(found) == 1:
        # A line of a log may name several: an event, and the error that caused it.
        for place, each in enumerate(found):
            if place:
                typer.echo()
            _print(each)
    else:
        for each in found:
            typer.echo(each.message)


def _print(it: explained.Explanation) -> None:
    out = console()
    for part in (Text(it.message, "bold"), Text(it.meaning), Text.assemble(("What to do: ", "bold"), it.what_to_do)):
        out.print(part, soft_wrap=not out.is_terminal)
        out.print()
    published = explained.address()
    where = f"{published.rstrip('/')}/{it.page.replace('.md', '.html')}" if published else f"docs/{it.page}"
    out.print(Text(f"More: {where}", "dim"))
