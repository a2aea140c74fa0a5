"""The part of ``penstock top`` about slowness: the busiest operators, and the time of actors. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath

from rich.filesize import decimal
from rich.text import Text

from penstock.api.slow_rows import ActorTime, OperatorRow, Slow
from penstock.cli.top_tables import Column, count_text, share_text, table
from penstock.common.shown import seconds_text

_LONGEST_NAME = 44


def slow_lines(slow: Slow, width: int) -> list[Text]:
    """Returns all there is to show."""
    times, details = _tables(slow.actors, width)
    return [*_operators(slow, slow.operators, width), Text(), *times, Text(), *details]


def slow_frame(slow: Slow, matches: Callable[..., bool], width: int, room: int, first: int) -> tuple[list[Text], int]:
    """Returns at most ``room`` lines, and the number of actors that are above them: ``first``, unless there are fewer.
    The busiest operators have a third of the room; the rest is of the actors, which scroll."""
    chosen = [row for row in slow.operators if matches(row.operator, _function_of(row))]
    actors = [row for row in slow.actors if matches(row.actor_id)]
    operators, (times, details) = _operators(slow, chosen, width), _tables(actors, width)
    lines = operators[: max(2, room // 3)]
    left = room - len(lines) - 4  # two empty lines and two headings
    if left < 2:
        at = min(first, max(0, len(actors) - (room - len(lines) - 2)))
        return [*lines, Text(), times[0], *times[1 + at :]][: max(0, room)], at
    shown = min(left // 2, len(actors))
    at = min(first, len(actors) - shown)
    rows = slice(1 + at, 1 + at + shown)
    lines = operators[: room - 2 * shown - 4]
    return [*lines, Text(), times[0], *times[rows], Text(), details[0], *details[rows]], at


def _operators(slow: Slow, chosen: Sequence[OperatorRow], width: int) -> list[Text]:
    """Returns the table of those that are ``chosen`` of ``slow``, or why there are none to choose from."""
    if slow.operators:
        return table(_OPERATORS, chosen, width)
    known = "No operator takes a measurable share of time"
    return [Text(known if slow.is_known else "The shares of operators are not known yet", style="dim")]


def _tables(actors: Sequence[ActorTime], width: int) -> tuple[list[Text], list[Text]]:
    return table(_times(actors), actors, width), table(_details(actors), actors, width)


def _function_of(row: OperatorRow) -> str:
    """Returns the name of the first function, and its place."""
    if (it := row.function) is None:
        return "-"
    file = it.file and PurePath(it.file).name
    return it.name if not file else f"{it.name} {file}" if it.line is None else f"{it.name} {file}:{it.line}"


def _name(text: str) -> Text:
    shown = "".join(sign if sign.isprintable() else "?" for sign in text)
    return Text(shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1] + "…")


_OPERATORS: list[Column[OperatorRow]] = [
    Column("OPERATOR", lambda row: _name(row.operator), 0),
    Column("FUNCTION", lambda row: _name(_function_of(row)), 2),
    Column("BUSY", lambda row: share_text(row.busy), 1, right=True),
    Column("ALL ACTORS", lambda row: share_text(row.busy_sum), 4, right=True),
    Column("REC/S", lambda row: count_text(row.records_per_s), 3, right=True),
    Column("CALLS IN FLIGHT", lambda row: Text("-") if row.calls_in_flight is None else count_text(row.calls_in_flight),
           5, right=True),
]  # fmt: skip


def _times(actors: Sequence[ActorTime]) -> list[Column[ActorTime]]:
    """Returns the columns of shares. The smallest shares are left out first if the window is narrow."""
    names = _names(row.shares for row in actors)
    largest = sorted(names, key=lambda name: max(row.shares.get(name, 0.0) for row in actors), reverse=True)
    return [
        Column("ACTOR", lambda row: Text(row.actor_id), 0),
        Column("BUSY", lambda row: share_text(row.busy), 1, right=True),
        *(_share_column(name, 2 + largest.index(name)) for name in names),
    ]


def _names(shares: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for each in shares for name in each))


def _share_column(name: str, rank: int) -> Column[ActorTime]:
    def cell(row: ActorTime) -> Text:
        share = row.shares.get(name)
        return Text("?" if share is None else f"{share:.0%}")

    return Column(name.replace("_", " ").upper(), cell, rank, right=True)


def _details(actors: Sequence[ActorTime]) -> list[Column[ActorTime]]:
    """Returns the columns of RocksDB, if an actor has stores on disk, and of garbage collection."""
    on_disk = _ROCKSDB if any(row.rocksdb for row in actors) else []
    return [Column("ACTOR", lambda row: Text(row.actor_id), 0), *on_disk, *_GC]


def _figure(
    title: str, figures: Callable[[ActorTime], Mapping[str, float]], name: str, text: Callable[[float], str], rank: int
) -> Column[ActorTime]:
    def cell(row: ActorTime) -> Text:
        value = figures(row).get(name)
        return Text("-" if value is None else text(value))

    return Column(title, cell, rank, right=True)


def _slowed_to(bytes_per_s: float) -> str:
    return f"{decimal(int(bytes_per_s))}/s" if bytes_per_s else "-"


_ROCKSDB = [
    _figure("WRITES WAITED", lambda row: row.rocksdb, "write_stall_ms", lambda ms: seconds_text(ms / 1000), 1),
    _figure("STOPPED", lambda row: row.rocksdb, "tasks_with_writes_stopped", lambda tasks: f"{tasks:.0f}", 3),
    _figure("SLOWED TO", lambda row: row.rocksdb, "delayed_write_bytes_per_s", _slowed_to, 4),
    _figure("TO COMPACT", lambda row: row.rocksdb, "estimate_pending_compaction_bytes", lambda it: decimal(int(it)), 6),
]
_GC = [
    _figure("GC LONGEST", lambda row: row.gc, "latency_max_ms", lambda ms: f"{ms:,.1f} ms", 2),
    _figure("FULL GCS", lambda row: row.gc, "full_total", lambda number: f"{number:,.0f}", 5),
    _figure("GCS", lambda row: row.gc, "total", lambda number: f"{number:,.0f}", 7),
]
