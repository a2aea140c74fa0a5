"""``penstock status|stop|query``: look at applications, and end them, from outside."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from penstock.api.encoding import entry_json, short_repr
from penstock.api.status import application_body
from penstock.cli.live_view import LiveView
from penstock.cli.loading import search_current_folder_last
from penstock.cli.output import AsJson, console, print_json, print_json_line, shown
from penstock.cluster.read_side import (
    ApplicationStatus,
    KeyQuery,
    RangeQuery,
    ReadSide,
    StoreEntry,
    ends_before_it_begins,
    instead_of_swapped,
)
from penstock.common.errors import ApplicationStateError, ConfigError, SerializationError, StreamsError

if TYPE_CHECKING:
    from penstock.common.serdes import Serde

_PAGE = 1000

Application = Annotated[str, typer.Argument(metavar="APP", help="The application's id")]


def register(app: typer.Typer) -> None:
    """Mount the commands on the root."""
    app.command()(status)
    app.command()(stop)
    app.command()(query)


def status(
    application: Annotated[str | None, typer.Argument(metavar="[APP]", help="The application's id; none: all")] = None,
    as_json: AsJson = False,
) -> None:
    """Show an application's state, tasks, placement and lag; or list the applications of every Ray cluster here."""
    from penstock.cluster import control

    if application is None:
        _list(as_json)
        return
    control.connect_to(application)
    found = control.require_status(application)
    if as_json:
        print_json(application_body(found))
    else:
        console().print(LiveView().render(found, time.monotonic()))


def _list(as_json: bool) -> None:
    from penstock.cluster import control

    found: list[tuple[str, ApplicationStatus]] = []
    silent: list[str] = []
    for cluster in control.each_cluster():
        for name in cluster.applications:
            try:
                found.append((cluster.address, control.require_status(name)))
            except ApplicationStateError as error:  # the others are shown all the same
                silent.append(f"{name} at {cluster.address}: {error}")
    if as_json:
        print_json([{"ray_address": address, **application_body(status)} for address, status in found])
    else:
        console().print(_overview(found) if found else "No application runs.")
    if silent:
        raise ApplicationStateError("; ".join(silent))


def _overview(found: list[tuple[str, ApplicationStatus]]) -> Table:
    several = len({address for address, _ in found}) > 1
    table = Table("Application", "State", "Actors", "Tasks", "HTTP", *(["Ray cluster"] if several else []))
    for address, each in sorted(found, key=lambda row: (row[1].application_id, row[0])):
        row = (each.application_id, each.state.value, str(len(each.actors)), str(len(each.placement)))
        table.add_row(*row, each.http_address or "", *([address] if several else []))
    return table


def stop(
    application: Application,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds; then its actors are ended without a commit")] = 120.0,
) -> None:
    """Drain and commit an application, then end all its actors."""
    from penstock.cluster import control

    control.connect_to(application)
    last = control.stop_application(application, timeout)
    if last is None:
        raise StreamsError(
            f"application {application!r} did not stop within {timeout:.0f} s and was ended: what it did since "
            "its last commit is done again at the next start"
        )
    note = f"; it had ended with: {last.error}" if last.error else "; all it processed is committed"
    Console().print(f"Application {application} has stopped{note}", soft_wrap=True, markup=False)


def query(
    application: Application,
    store: Annotated[str, typer.Argument(help="The store's name")],
    key: Annotated[str | None, typer.Argument(help="The key as text, read by the store's key serde")] = None,
    from_key: Annotated[str | None, typer.Option("--from", help="The first key of a range, included")] = None,
    to_key: Annotated[str | None, typer.Option("--to", help="The last key of a range, included")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most so many rows")] = None,
    as_json: AsJson = False,
) -> None:
    """Look up one key, or print a range (all rows without --from and --to) as lines of key, tab, value.

    With --json each row is a line of JSON: key, value, timestamp (event time in ms).
    """
    from penstock.cluster import control
    from penstock.cluster.queries import StateQueries

    if key is not None and (from_key is not None or to_key is not None):
        raise ConfigError("give either KEY or --from/--to, not both")
    search_current_folder_last()
    control.connect_to(application)
    found = asyncio.run(_query(StateQueries(application), store, key, from_key, to_key, as_json, limit))
    if key is not None and not found:
        Console(stderr=True).print(f"store {store} has no key {key}", markup=False, soft_wrap=True)
        raise typer.Exit(1)


async def _query(
    side: ReadSide,
    store: str,
    key: str | None,
    from_key: str | None,
    to_key: str | None,
    as_json: bool = False,
    limit: int | None = None,
) -> bool:
    serde = await side.key_serde(store)
    if key is not None:
        entry = await side.one(store, KeyQuery(_of_text(serde, key)))
        if entry is not None:
            if as_json:
                print_json_line(entry)
            else:
                typer.echo(shown(entry.value))
        return entry is not None
    lower = None if from_key is None else _of_text(serde, from_key)
    upper = None if to_key is None else _of_text(serde, to_key)
    if ends_before_it_begins(serde, lower, upper):
        raise ConfigError(instead_of_swapped(serde, f"--from {from_key}", f"--to {to_key}"))
    cursor: str | None = None
    left = sys.maxsize if limit is None else limit
    while True:
        page = await side.page(store, RangeQuery(lower, upper), min(_PAGE, left), cursor)
        for row in page.entries:
            if as_json:
                typer.echo(entry_json(row).decode())
            else:
                typer.echo(_line(row))
        cursor = page.cursor
        left -= len(page.entries)
        if cursor is None or left <= 0:
            return True


def _of_text(serde: Serde[Any], text: str) -> Any:
    if serde.from_text is None:
        raise ConfigError(f"the key serde {serde.name} cannot read text: give it from_text")
    try:
        return serde.from_text(text)
    except Exception as error:  # a serde may raise anything: see Serde
        raise ConfigError(f"the key serde {serde.name} cannot read {text!r}: {error}") from error


def _line(entry: StoreEntry) -> str:
    return f"{_shown_or_repr(entry.key)}\t{_shown_or_repr(entry.value)}"


def _shown_or_repr(value: Any) -> str:
    # One row that JSON cannot show must not hide those behind it.
    try:
        return shown(value)
    except SerializationError:
        return short_repr(value)
