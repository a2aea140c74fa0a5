"""Draws what ``penstock top`` shows: a frame that fits a window of any size, or all of it, as lines. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from rich.text import Text

from penstock.api.standbys import standbys_text
from penstock.api.top_rows import ActorRow, TaskRow, Top, slowness
from penstock.cli.output import LEVEL_STYLES
from penstock.cli.top_keys import HELP, Sort, View
from penstock.cluster.findings import BEHIND_S, BUSY, Finding, Level
from penstock.cluster.read_side import SILENT, WAITING, TaskState
from penstock.common.shown import counted, seconds_text

_GAP = 2
_BAR = 10
_FEW_LINES = 12
"""Lines of a window below which only the first finding and the tasks are shown."""
R = TypeVar("R")


@dataclass(frozen=True)
class _Column(Generic[R]):
    """A column. Those with the largest ``rank`` are left out first if the window is narrow."""

    title: str
    cell: Callable[[R], Text]
    rank: int
    right: bool = False
    key: Sort | None = None


@dataclass(frozen=True)
class Frame:
    """The lines of a window, and the number of tasks above it: not more than there are."""

    lines: list[Text]
    first: int = 0


def frame(top: Top | None, view: View, width: int, height: int, note: str = "") -> Frame:
    """Returns at most ``height`` lines of at most ``width`` characters. ``note`` replaces the first line; ``top`` is
    None while nothing is known."""
    if view.help:
        return Frame(_fitted(_help(), width, height), view.first)
    first = [Finding(Level.FAULT, note, note)] if note else []
    found = [*first, *(top.findings if top is not None and not note else ())]
    roomy = height >= _FEW_LINES
    lines = [line for finding in found[: 3 if roomy else 1] for line in _finding(finding, width, 3 if roomy else 2)]
    footer = _footer(view)
    if top is None:
        return Frame(_fitted([*lines, *([footer] if height > len(lines) else [])], width, height), view.first)
    if roomy:
        lines += [_headline(top, view), Text()]
    room = height - len(lines) - 1
    actors = _table(_ACTORS, [row for row in top.actors if _matches(view, row.actor_id)], width) if roomy else []
    actors = [Text(), *actors[: max(3, room // 3)]] if len(actors) > 1 else []
    tasks = _table(_task_columns(top), _chosen(top, view), width, view.sort)
    room -= len(actors) + 1
    at = min(view.first, max(0, len(tasks) - 1 - max(0, room)))
    lines += [*tasks[:1], *tasks[1 + at : 1 + at + max(0, room)], *actors]
    lines += [Text()] * (height - 1 - len(lines)) + [footer]
    return Frame(_fitted(lines, width, height), at)


def plain(top: Top, width: int) -> list[Text]:
    """Returns all there is to show, for an output that is no terminal."""
    lines = [Text(_told(finding), style=LEVEL_STYLES[finding.level]) for finding in top.findings]
    lines += [_headline(top, View()), Text(), *_table(_task_columns(top), _chosen(top, View()), width)]
    return [*lines, Text(), *_table(_ACTORS, top.actors, width)]


def _fitted(lines: Sequence[Text], width: int, height: int) -> list[Text]:
    fitted = [line.copy() for line in lines[:height]]
    for line in fitted:
        line.truncate(width, overflow="ellipsis")
    return fitted


def _finding(finding: Finding, width: int, most: int) -> list[Text]:
    wrapped = textwrap.wrap(_told(finding), max(10, width), max_lines=most, placeholder=" …")
    return [Text(line, style=LEVEL_STYLES[finding.level]) for line in wrapped]


def _told(finding: Finding) -> str:
    if finding.since_ms is None:
        return finding.sentence
    return f"{finding.sentence} (since {datetime.fromtimestamp(finding.since_ms / 1000):%Y-%m-%d %H:%M:%S})"


def _headline(top: Top, view: View) -> Text:
    lag = f"{top.lag:,}" if top.lag_is_known else f"{top.lag:,} + ?"
    behind = "" if top.behind_s is None else f", {seconds_text(top.behind_s)} behind"
    parts = [
        f"{top.state} (paused)" if top.paused else top.state,
        counted(len(top.tasks), "task"),
        counted(len(top.actors), "actor"),
        f"lag {lag}{behind}",
    ]
    if top.http_address:
        parts.append(top.http_address)
    line = Text(top.application_id, style="bold").append("  ").append(" · ".join(parts), style="not bold")
    return line.append("  PAUSED: p continues", style="bold yellow") if view.paused else line


def _footer(view: View) -> Text:
    if view.typing is not None:
        return Text(f"filter: {view.typing}_   Enter keeps it, Esc removes it", style="bold")
    filtered = f"   filter: {view.filter}" if view.filter else ""
    return Text(f"q quit  h help  / filter  p pause  b t a s l r u sort{filtered}", style="dim")


def _help() -> list[Text]:
    return [Text("penstock top", style="bold"), Text(), *(Text(f"{keys:<20}{what}") for keys, what in HELP)]


# ---- tasks and actors ----


def _matches(view: View, *texts: str | None) -> bool:
    wanted = view.shown_filter.lower()
    return not wanted or any(wanted in text.lower() for text in texts if text)


def _chosen(top: Top, view: View) -> list[TaskRow]:
    rows = [
        row
        for row in top.tasks
        if _matches(view, str(row.task_id), row.actor_id, row.state, *(each.actor_id for each in row.standbys))
    ]
    ascending = view.sort in (Sort.TASK, Sort.ACTOR, Sort.STATE)
    return sorted(rows, key=_ORDERS[view.sort], reverse=view.reverse if ascending else not view.reverse)


def _unknown_last(value: float | None) -> float:
    return -1.0 if value is None else value


_ORDERS: dict[Sort, Callable[[TaskRow], tuple[object, ...]]] = {
    Sort.BEHIND: slowness,
    Sort.TASK: lambda row: (row.task_id,),
    Sort.ACTOR: lambda row: (row.actor_id or "", row.task_id),
    Sort.STATE: lambda row: (row.state, row.task_id),
    Sort.LAG: lambda row: (_unknown_last(row.lag), row.task_id),
    Sort.RATE: lambda row: (_unknown_last(row.records_per_s), row.task_id),
    Sort.BUSY: lambda row: (_unknown_last(row.busy), row.task_id),
}


def _state(row: TaskRow) -> Text:
    if row.restore is not None:
        left = row.restore.seconds_left
        done = round(row.restore.share * _BAR)
        text = f"{'#' * done}{'.' * (_BAR - done)} {row.restore.share:.0%}"
        text += f", {row.restore.remaining:,} to go" if left is None else f", {seconds_text(left)} left"
        return Text(text, style="yellow")
    style = {WAITING: "red", SILENT: "red", TaskState.RUNNING.value: "green"}.get(row.state, "yellow")
    return Text(row.state, style=style)


def _behind(row: TaskRow) -> Text:
    if row.behind_s is None:
        return Text("?")
    return Text(seconds_text(row.behind_s), style="yellow" if row.behind_s >= BEHIND_S else "")


def _share(share: float | None) -> Text:
    return Text("?") if share is None else Text(f"{share:.0%}", style="yellow" if share >= BUSY else "")


def _count(number: float | None) -> Text:
    return Text("?" if number is None else f"{number:,.0f}")


def _task_columns(top: Top) -> list[_Column[TaskRow]]:
    has_standbys = any(row.standbys for row in top.tasks)
    return _TASKS if has_standbys else _TASKS[:-1]


_TASKS: list[_Column[TaskRow]] = [
    _Column("TASK", lambda row: Text(str(row.task_id)), 0, key=Sort.TASK),
    _Column("ACTOR", lambda row: Text(row.actor_id or "-"), 4, key=Sort.ACTOR),
    _Column("STATE", _state, 3, key=Sort.STATE),
    _Column("BEHIND", _behind, 1, right=True, key=Sort.BEHIND),
    _Column("LAG", lambda row: _count(row.lag), 2, right=True, key=Sort.LAG),
    _Column("REC/S", lambda row: _count(row.records_per_s), 5, right=True, key=Sort.RATE),
    _Column("BUSY", lambda row: _share(row.busy), 6, right=True, key=Sort.BUSY),
    _Column("STANDBYS", lambda row: Text(standbys_text(row.standbys)), 7),
]
_ACTORS: list[_Column[ActorRow]] = [
    _Column("ACTOR", lambda row: Text(row.actor_id), 0),
    _Column("STATE", lambda row: Text(row.state, style="" if row.state == "running" else "yellow"), 3),
    _Column("BUSY", lambda row: _share(row.busy), 1, right=True),
    _Column("COMMIT PAUSE p50", lambda row: Text(f"{row.commit_pause_p50_ms:,.1f} ms"), 5, right=True),
    _Column("max", lambda row: Text(f"{row.commit_pause_max_ms:,.1f} ms"), 2, right=True),
    _Column("COMMITS", lambda row: _count(row.commits), 6, right=True),
    _Column("TASKS", lambda row: _count(row.tasks), 4, right=True),
    _Column("STANDBYS", lambda row: _count(row.standbys), 7, right=True),
    _Column("NODE", lambda row: Text(row.node_id[:8]), 8),
]


def _table(columns: Sequence[_Column[R]], rows: Sequence[R], width: int, sort: Sort | None = None) -> list[Text]:
    """Returns a heading and a line for each row, with the columns that fit."""
    cells = [[column.cell(row) for row in rows] for column in columns]
    widths = [
        max([len(column.title), *(each.cell_len for each in found)])
        for column, found in zip(columns, cells, strict=True)
    ]
    kept = set(range(len(columns)))
    while len(kept) > 1 and sum(widths[at] + _GAP for at in kept) - _GAP > width:
        kept.remove(max(kept, key=lambda at: columns[at].rank))
    shown = sorted(kept)
    titles = [
        Text(columns[at].title, style="bold underline" if columns[at].key is sort is not None else "bold")
        for at in shown
    ]
    lines = [titles, *([cells[at][number] for at in shown] for number in range(len(cells[0])))]
    return [_line([(columns[at].right, widths[at]) for at in shown], line) for line in lines]


def _line(shapes: Sequence[tuple[bool, int]], cells: Sequence[Text]) -> Text:
    line = Text()
    for (right, width), cell in zip(shapes, cells, strict=True):
        padding = " " * (width - cell.cell_len)
        if line:
            line.append(" " * _GAP)
        line = line.append(padding).append_text(cell) if right else line.append_text(cell).append(padding)
    line.rstrip()
    return line
