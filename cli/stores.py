"""``penstock stores``: the stores of an application, with their places, sizes and lags."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich import filesize
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.api.standbys import StandbyRow, standbys_of, standbys_text
from penstock.cli.applications import Application
from penstock.cli.output import AsJson, console, print_json
from penstock.cluster.read_side import (
    SILENT,
    WAITING,
    ApplicationStatus,
    ReadSide,
    StoreMetadata,
    TaskState,
    unknown_store,
)
from penstock.common.ids import TaskId
from penstock.common.metric_names import STATE, Measured

_ROWS = ("estimate-num-keys", "num-keys", "suppression-buffer-count-avg")
"""The figures that count rows, of which a store has one: on disk, in memory, of a suppression buffer."""
_ON_DISK = "total-sst-files-size"


@dataclass(frozen=True)
class Part:
    """The part of a store in one task. ``lag``: the changelog offsets that the stores of the task lack; As for other
    figures, None if it is not known."""

    task_id: str
    actor_id: str | None
    state: str
    rows: int | None
    bytes_on_disk: int | None
    lag: int | None
    standbys: tuple[StandbyRow, ...] = ()


@dataclass(frozen=True)
class StoreFound:
    """A store with its parts. A global one has none: every stream actor has all of it."""

    name: str
    kind: str
    persistent: bool
    is_global: bool
    changelog: str | None
    partitions: tuple[Part, ...]

    @property
    def rows(self) -> int | None:
        """The approximate number of rows, as far as it is known; None if nothing is known."""
        return _sum(part.rows for part in self.partitions)

    @property
    def bytes_on_disk(self) -> int | None:
        """Bytes of its files, as far as they are known; None if nothing is known."""
        return _sum(part.bytes_on_disk for part in self.partitions)

    def body(self) -> dict[str, Any]:
        """Returns its part of the document of ``--json``."""
        return {**asdict(self), "rows": self.rows, "bytes_on_disk": self.bytes_on_disk}


def _sum(numbers: Any) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def register(app: typer.Typer) -> None:
    """Mount the command on the root."""
    app.command()(stores)


def stores(
    application: Application,
    store: Annotated[str | None, typer.Argument(metavar="STORE", help="Only this store")] = None,
    as_json: AsJson = False,
) -> None:
    """Show an application's stores, with kinds, actors, changelogs, bytes on disk, the lag of each partition, and the
    approximate number of rows: until RocksDB merges its files, a row that was written twice may count twice."""
    from penstock.cluster.queries.queries import StateQueries
    from penstock.cluster.ray_cluster import connections

    connections.connect_to(application)
    found = asyncio.run(_asked(StateQueries(application), store))
    if as_json:
        print_json([each.body() for each in found])
    else:
        console().print(_shown(found))


async def _asked(side: ReadSide, store: str | None) -> list[StoreFound]:
    known, status = await side.stores(), await side.status()
    if store is not None and store not in known:
        raise unknown_store(side.application_id, store, known)
    wanted = known if store is None else {store: known[store]}
    return stores_of(wanted, status)


def stores_of(stores: Mapping[str, StoreMetadata], status: ApplicationStatus) -> list[StoreFound]:
    """Returns the stores by name, with the figures that the actors last reported."""
    return [
        StoreFound(
            store.name, store.kind, store.persistent, store.is_global, store.changelog, tuple(_parts(store, status))
        )
        for _, store in sorted(stores.items())
    ]


def _parts(store: StoreMetadata, status: ApplicationStatus) -> list[Part]:
    if store.is_global:
        return []
    reported = {task.task_id: (actor, task) for actor in status.actors for task in actor.tasks}
    standbys, parts = standbys_of(status), []
    for number in range(store.partitions):
        task_id = TaskId(store.subtopology, number)
        kept = standbys.get(task_id, ())
        if task_id not in reported or task_id in status.unhosted:
            parts.append(Part(str(task_id), status.placement.get(task_id), WAITING, None, None, None, kept))
            continue
        actor, task = reported[task_id]
        silent = actor.actor_id in status.silent
        state, lag = (SILENT, None) if silent else (task.state.value, task.restore_remaining)
        figures = _rows(task.measured, store.name), _on_disk(task.measured, store)
        parts.append(Part(str(task_id), actor.actor_id, state, *figures, lag, kept))
    return parts


def _rows(measured: Measured, store: str) -> int | None:
    for name in _ROWS:
        if isinstance(found := measured.get((STATE, name, store)), int | float):
            return round(found)
    return None


def _on_disk(measured: Measured, store: StoreMetadata) -> int | None:
    if not store.persistent:
        return 0
    found = measured.get((STATE, _ON_DISK, store.name))
    return round(found) if isinstance(found, int | float) else None


# ---- output ----


def _shown(found: list[StoreFound]) -> RenderableType:
    if not found:
        return "The application has no stores."
    table = _table("Stores", "STORE", "KIND", "ROWS, ABOUT", "ON DISK", "WHERE", "CHANGELOG")
    parts = _table("Partitions", "STORE", "TASK", "ACTOR", "STATE", "ROWS, ABOUT", "ON DISK", "LAG", "STANDBYS")
    for store in found:
        size = _size(store.bytes_on_disk) if store.persistent else "in memory"
        _row(table, store.name, store.kind, _count(store.rows), size, _where(store), store.changelog or "none")
        for part in store.partitions:
            on_disk = _size(part.bytes_on_disk) if store.persistent else ""
            figures = _count(part.rows), on_disk, _count(part.lag)
            state = Text(part.state, style="" if part.state == TaskState.RUNNING.value else "yellow")
            _row(parts, store.name, part.task_id, part.actor_id or "-", state, *figures, standbys_text(part.standbys))
    return Group(table, Text(), parts) if parts.row_count else table


def _where(store: StoreFound) -> str:
    if store.is_global:
        return "every actor"
    actors = dict.fromkeys(part.actor_id for part in store.partitions if part.actor_id is not None)
    return ", ".join(actors) or "no actor"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in ("ROWS, ABOUT", "ON DISK", "LAG") else "left")
    return table


def _row(table: Table, *cells: str | Text) -> None:
    table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _size(number: int | None) -> str:
    return "?" if number is None else filesize.decimal(number)
