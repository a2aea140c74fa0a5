"""``penstock status|stop|describe|query``: look at applications, and end them, from outside."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from penstock.api.encoding import to_json
from penstock.cli.live_view import LiveView
from penstock.cli.loading import load_application
from penstock.cluster.read_side import ReadSide, StoreEntry
from penstock.common.errors import ConfigError, StreamsError

if TYPE_CHECKING:
    from penstock.common.serdes import Serde

_PAGE = 1000

Application = Annotated[str, typer.Argument(metavar="APP", help="The application's id")]


def register(app: typer.Typer) -> None:
    """Mount the commands on the root."""
    app.command()(status)
    app.command()(stop)
    app.command()(describe)
    app.command()(query)


def status(
    application: Annotated[str | None, typer.Argument(metavar="[APP]", help="The application's id; none: all")] = None,
) -> None:
    """Show an application's state, tasks, placement and lag; or list the applications of the Ray cluster."""
    from penstock.cluster import control

    control.connect(start_local=False)
    console = Console()
    if application is not None:
        console.print(LiveView().render(control.require_status(application), time.monotonic()))
        return
    table = Table("Application", "State", "Actors", "Tasks", "HTTP")
    for name in control.applications():
        found = control.require_status(name)
        row = (name, found.state.value, str(len(found.actors)), str(len(found.placement)), found.http_address or "")
        table.add_row(*row)
    console.print(table if table.row_count else "No application runs in this Ray cluster.")


def stop(
    application: Application,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds; then its actors are ended without a commit")] = 120.0,
) -> None:
    """Drain and commit an application, then end all its actors."""
    from penstock.cluster import control

    control.connect(start_local=False)
    control.require_status(application)
    last = control.stop_application(application, timeout)
    if last is None:
        raise StreamsError(
            f"application {application!r} did not stop within {timeout:.0f} s and was ended: what it did since "
            "its last commit is done again at the next start"
        )
    note = f"; it had ended with: {last.error}" if last.error else "; all it processed is committed"
    Console().print(f"Application {application} has stopped{note}", soft_wrap=True, markup=False)


def describe(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Such as examples.word_count:app")],
) -> None:
    """Print an application's topology as Kafka Streams does. Needs neither Ray nor a broker."""
    typer.echo(load_application(target).describe(), nl=False)


def query(
    application: Application,
    store: Annotated[str, typer.Argument(help="The store's name")],
    key: Annotated[str | None, typer.Argument(help="The key as text, read by the store's key serde")] = None,
    from_key: Annotated[str | None, typer.Option("--from", help="The first key of a range, included")] = None,
    to_key: Annotated[str | None, typer.Option("--to", help="The last key of a range, included")] = None,
) -> None:
    """Look up one key, or print a range (all rows without --from and --to) as lines of key, tab, value."""
    from penstock.cluster import control
    from penstock.cluster.queries import StateQueries

    if key is not None and (from_key is not None or to_key is not None):
        raise ConfigError("give either KEY or --from/--to, not both")
    control.connect(start_local=False)
    control.require_status(application)
    found = asyncio.run(_query(StateQueries(application), store, key, from_key, to_key))
    if key is not None and not found:
        Console(stderr=True).print(f"store {store} has no key {key}", markup=False, soft_wrap=True)
        raise typer.Exit(1)


async def _query(side: ReadSide, store: str, key: str | None, from_key: str | None, to_key: str | None) -> bool:
    serde = await side.key_serde(store)
    if key is not None:
        entry = await side.get(store, _of_text(serde, key))
        if entry is not None:
            typer.echo(_text(entry.value))
        return entry is not None
    lower = None if from_key is None else _of_text(serde, from_key)
    upper = None if to_key is None else _of_text(serde, to_key)
    cursor: str | None = None
    while True:
        page = await side.range(store, lower, upper, _PAGE, cursor)
        for row in page.entries:
            typer.echo(_line(row))
        cursor = page.cursor
        if cursor is None:
            return True


def _of_text(serde: Serde[Any], text: str) -> Any:
    if serde.from_text is None:
        raise ConfigError(f"the key serde {serde.name} cannot read text: give it from_text")
    try:
        return serde.from_text(text)
    except Exception as error:  # a serde may raise anything: see Serde
        raise ConfigError(f"the key serde {serde.name} cannot read {text!r}: {error}") from error


def _line(entry: StoreEntry) -> str:
    return f"{_text(entry.key)}\t{_text(entry.value)}"


def _text(value: Any) -> str:
    """Text as it is, anything else as the HTTP API shows it."""
    return value if isinstance(value, str) else to_json(value).decode()
