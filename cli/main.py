"""The root of ``penstock``. A module of commands has a function ``register(app)``, listed in ``_REGISTRARS``.

Modules import what is heavy (Ray, Spark) inside their commands, so that ``penstock --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer
from rich.console import Console
from rich.text import Text

from penstock.cli import applications, backfill, broker, run
from penstock.common.errors import StreamsError

_REGISTRARS: tuple[Callable[[typer.Typer], None], ...] = (
    broker.register,
    run.register,
    applications.register,
    backfill.register,
)

app = typer.Typer(
    name="penstock",
    help="Kafka Streams for Python, on Ray.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _register in _REGISTRARS:
    _register(app)


@app.callback()
def _root() -> None:
    """Kafka Streams for Python, on Ray."""


def main() -> None:
    """Run the command line. What penstock raises on purpose becomes one red line and exit code 1."""
    try:
        app()
    except StreamsError as error:
        Console(stderr=True).print(Text(str(error), style="red"), soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
