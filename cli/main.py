"""The root of ``penstock``. A module of commands has a function ``register(app)``, listed in ``_REGISTRARS``.

Modules import what is heavy (Ray, Spark) inside their commands, so that ``penstock --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer
from rich.text import Text

from penstock.cli import (
    applications,
    archive,
    audit,
    backfill,
    broker,
    deploy,
    describe,
    dlq,
    doctor,
    drain_node,
    explain,
    ingest,
    moves,
    new,
    plan,
    query,
    reset,
    run,
    scale,
    schema,
    stores,
    top,
    topic,
)
from penstock.cli.output import console
from penstock.common import explained
from penstock.common.errors import ConfigError, StreamsError
from penstock.common.version import version

_REGISTRARS: tuple[Callable[[typer.Typer], None], ...] = (
    new.register,
    doctor.register,
    broker.register,
    run.register,
    applications.register,
    top.register,
    stores.register,
    query.register,
    describe.register,
    topic.register,
    dlq.register,
    explain.register,
    archive.register,
    backfill.register,
    audit.register,
    ingest.register,
    reset.register,
    plan.register,
    schema.register,
    deploy.register,
    scale.register,
    moves.register,
    drain_node.register,
)

app = typer.Typer(
    name="penstock",
    help="Kafka Streams for Python, on Ray.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_EXPLAIN_THEMSELVES = (StreamsError.__name__, ConfigError.__name__)
"""Errors whose page has no more than their message."""

for _register in _REGISTRARS:
    _register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {version()}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Kafka Streams for Python, on Ray."""


def main() -> None:
    """Run the command line. What penstock raises on purpose becomes one red line and exit code 1, Ctrl-C 130."""
    try:
        app()
    except StreamsError as error:
        _refuse(error)
    except Exception as error:
        if not _of_ray(error):
            raise
        _refuse(error)


def _refuse(error: Exception) -> NoReturn:
    out = console(stderr=True)
    out.print(Text(str(error), style="red"), soft_wrap=True)
    name = explained.name_of(error)
    if out.is_terminal and name not in (None, *_EXPLAIN_THEMSELVES):
        out.print(Text(f"penstock explain {name}", style="dim"))
    sys.exit(1)


def _of_ray(error: Exception) -> bool:
    # Ray's lines about a cluster that goes away are for the user, too. A command that did not use Ray does not load it.
    exceptions = sys.modules.get("ray.exceptions")
    return exceptions is not None and isinstance(error, exceptions.RayError)


if __name__ == "__main__":
    main()
