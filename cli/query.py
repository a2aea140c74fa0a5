"""``penstock query``: queries the stores of an application."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from penstock.api.encoding import entry_json, members, short_repr
from penstock.cli.applications import Application
from penstock.cli.loading import search_current_folder_last
from penstock.cli.output import AsJson, console, shown
from penstock.cluster.read_side import (
    KeyQuery,
    MultiVersionedKeyQuery,
    PrefixQuery,
    Query,
    RangeQuery,
    Reading,
    ReadSide,
    RowsQuery,
    SessionQuery,
    SessionRangeQuery,
    StoreEntry,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
    ends_before_it_begins,
    swapped_range_hint,
    unknown_store,
)
from penstock.common.errors import ConfigError, SerializationError
from penstock.common.serdes import Serde
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.common.written_times import WRITTEN, iso_time, ms_of_text

_PAGE = 1000
_OF_WINDOWS = ("window", "timestamped window", "deduplication")
"""The kinds of stores that answer queries of windows."""


@dataclass(frozen=True)
class Asked:
    """The options of a query, as they were written."""

    key: str | None = None
    from_key: str | None = None
    to_key: str | None = None
    prefix: str | None = None
    time_from: str | None = None
    time_to: str | None = None
    as_of: str | None = None
    history: bool = False
    reverse: bool = False
    stale: bool = False


def register(app: typer.Typer) -> None:
    """Mount the command on the root."""
    app.command()(query)


def query(
    application: Application,
    store: Annotated[str, typer.Argument(help="The store's name")],
    key: Annotated[str | None, typer.Argument(help="The key as text, read by the store's key serde")] = None,
    from_key: Annotated[str | None, typer.Option("--from", help="The first key of a range, included")] = None,
    to_key: Annotated[str | None, typer.Option("--to", help="The last key of a range, included")] = None,
    prefix: Annotated[str | None, typer.Option(help="Keys whose serialised bytes begin with this text")] = None,
    time_from: Annotated[
        str | None, typer.Option(help=f"Windows that start, or sessions that end, at this time or later: {WRITTEN}")
    ] = None,
    time_to: Annotated[str | None, typer.Option(help="Windows and sessions that start at this time or earlier")] = None,
    as_of: Annotated[
        str | None, typer.Option(help="The version that was valid at this time, in a versioned store")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="All versions of KEY, in a versioned store")] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="In reverse order")] = False,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale",
            help="If a task moves, restores or does not respond, accept an answer from a standby, or from its rows "
            "so far",
        ),
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of rows")] = None,
    as_json: AsJson = False,
) -> None:
    """Look up one key, or print a range (all rows without --from and --to) as lines of key, tab, value.

    Of a window or session store: windows, of KEY or of all keys, as lines of key, start, end, value. Of a versioned
    store the latest version of KEY, or the one --as-of a time, or its --history as lines of from, until, value. With
    --json each row is a line of JSON. If an answer of --stale may lack the newest updates, a line on stderr warns.
    """
    from penstock.cluster.queries.queries import StateQueries
    from penstock.cluster.ray_cluster import connections

    if key is not None and (from_key is not None or to_key is not None or prefix is not None):
        raise ConfigError("give KEY alone, or --from and --to, or --prefix")
    if prefix is not None and (from_key is not None or to_key is not None):
        raise ConfigError("give --prefix, or --from and --to, not both")
    search_current_folder_last()
    connections.connect_to(application)
    asked = Asked(key, from_key, to_key, prefix, time_from, time_to, as_of, history, reverse, stale)
    found = asyncio.run(answer(StateQueries(application), store, asked, as_json, limit))
    if not found:
        console(stderr=True).print(f"store {store} has no key {key}", markup=False, soft_wrap=True)
        raise typer.Exit(1)


async def answer(side: ReadSide, store: str, asked: Asked, as_json: bool = False, limit: int | None = None) -> bool:
    """Print the answer; returns False if one row was asked for, and there is none."""
    stores = await side.stores()
    serde = await side.key_serde(store)
    if store not in stores:
        raise unknown_store(side.application_id, store, stores)
    question, reading, found = _question(stores[store].kind, store, serde, asked), Reading(stale=asked.stale), True
    if isinstance(question, RowsQuery):
        await _print_rows(side, store, question, reading, as_json, limit)
    else:
        entry = await side.find_row(store, question, reading)
        found = entry is not None
        if entry is not None:
            typer.echo(entry_json(entry).decode() if as_json else shown(entry.value))
    if reading.was_stale:
        typer.echo("answered by a standby or a restoring task: the newest updates may be missing", err=True)
    return found


def _question(kind: str, store: str, serde: Serde[Any], asked: Asked) -> Query:
    if kind in _OF_WINDOWS:
        return _windows(kind, store, serde, asked)
    if kind == "session":
        return _sessions(kind, store, serde, asked)
    if kind == "versioned":
        return _versions(kind, store, serde, asked)
    _refuse(kind, store, asked, "time_from", "time_to", "as_of", "history")
    if asked.key is not None:
        return KeyQuery(_of_text(serde, asked.key))
    if asked.prefix is not None:
        return PrefixQuery(asked.prefix.encode(), descending=asked.reverse)
    return RangeQuery(*_keys(serde, asked), descending=asked.reverse)


def _windows(kind: str, store: str, serde: Serde[Any], asked: Asked) -> Query:
    _refuse(kind, store, asked, "prefix", "as_of", "history")
    times = _time("--time-from", asked.time_from, 0), _time("--time-to", asked.time_to, LARGEST_TIMESTAMP)
    if asked.key is not None:
        return WindowKeyQuery(_of_text(serde, asked.key), *times, descending=asked.reverse)
    return WindowRangeQuery(*times, *_keys(serde, asked), descending=asked.reverse)


def _sessions(kind: str, store: str, serde: Serde[Any], asked: Asked) -> Query:
    _refuse(kind, store, asked, "prefix", "as_of", "history")
    times = _time("--time-from", asked.time_from, 0), _time("--time-to", asked.time_to, LARGEST_TIMESTAMP)
    if asked.key is not None:
        return SessionQuery(_of_text(serde, asked.key), *times, descending=asked.reverse)
    return SessionRangeQuery(*times, *_keys(serde, asked), descending=asked.reverse)


def _versions(kind: str, store: str, serde: Serde[Any], asked: Asked) -> Query:
    _refuse(kind, store, asked, "from_key", "to_key", "prefix")
    if asked.key is None:
        raise ConfigError(f"store {store!r} is a {kind} store: give the KEY whose versions are meant")
    key = _of_text(serde, asked.key)
    if asked.history:
        times = _time("--time-from", asked.time_from, 0), _time("--time-to", asked.time_to, LARGEST_TIMESTAMP)
        return MultiVersionedKeyQuery(key, *times, descending=asked.reverse)
    _refuse(kind, store, asked, "time_from", "time_to", "reverse")
    return VersionedKeyQuery(key, None if asked.as_of is None else _time("--as-of", asked.as_of, 0))


def _refuse(kind: str, store: str, asked: Asked, *names: str) -> None:
    options = {"from_key": "--from", "to_key": "--to"}
    given = [
        options.get(name, f"--{name.replace('_', '-')}") for name in names if getattr(asked, name) not in (None, False)
    ]
    if given:
        raise ConfigError(
            f"store {store!r} is a {kind} store, which does not take {', '.join(given)} like this: "
            "'penstock query -h' shows the options of each kind of store"
        )


def _keys(serde: Serde[Any], asked: Asked) -> tuple[Any, Any]:
    lower = None if asked.from_key is None else _of_text(serde, asked.from_key)
    upper = None if asked.to_key is None else _of_text(serde, asked.to_key)
    if ends_before_it_begins(serde, lower, upper):
        raise ConfigError(swapped_range_hint(serde, f"--from {asked.from_key}", f"--to {asked.to_key}"))
    return lower, upper


def _time(option: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    try:
        return ms_of_text(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: {error}") from error


def _of_text(serde: Serde[Any], text: str) -> Any:
    if serde.from_text is None:
        raise ConfigError(f"the key serde {serde.name} has no from_text: define it, so that keys can be given as text")
    try:
        return serde.from_text(text)
    except Exception as error:  # a serde may raise anything: see Serde
        raise ConfigError(f"the key serde {serde.name} cannot read {text!r}: {error}") from error


async def _print_rows(
    side: ReadSide, store: str, question: RowsQuery, reading: Reading, as_json: bool, limit: int | None
) -> None:
    cursor: str | None = None
    left = sys.maxsize if limit is None else limit
    while left > 0:
        page = await side.page(store, question, min(_PAGE, left), cursor, reading)
        for row in page.entries:
            typer.echo(entry_json(row).decode() if as_json else _line(row))
        cursor = page.cursor
        left -= len(page.entries)
        if cursor is None:
            return


def _line(entry: StoreEntry) -> str:
    has = members(entry)
    columns = [_shown_or_repr(entry.key)]
    if (window := has.get("window")) is not None:
        columns += [iso_time(window.start) or str(window.start), iso_time(window.end) or str(window.end)]
    elif "valid_to" in has:
        until = has["valid_to"]
        columns = [
            iso_time(has["timestamp"]) or str(has["timestamp"]),
            "" if until is None else iso_time(until) or str(until),
        ]
    return "\t".join([*columns, _shown_or_repr(entry.value)])


def _shown_or_repr(value: Any) -> str:
    # A row that JSON cannot show must not hide the next ones.
    try:
        return shown(value)
    except SerializationError:
        return short_repr(value)
