"""Draws what ``penstock top`` shows: a frame that fits a window of any size, or all of it, as lines. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from rich.text import Text

from penstock.api.slow_rows import Slow
from penstock.api.standbys import standbys_text
from penstock.api.top_rows import ActorRow, TaskRow, Top, slowness
from penstock.cli.output import LEVEL_STYLES
from penstock.cli.top_keys import HELP, Sort, View
from penstock.cli.top_slow import slow_frame, slow_lines
from penstock.cli.top_tables import Column, count_text, share_text, table
from penstock.cluster.findings import BEHIND_S, Finding, Level
from penstock.cluster.read_side import SILENT, WAITING, TaskState
from penstock.common.shown import counted, seconds_text

_BAR = 10
_FEW_LINES = 12
"""Lines of a window below which only the first finding and the tasks are shown."""


@dataclass(frozen=True)
class Frame:
    """The lines of a window, and the number of tasks above it: not more than there are."""

    lines: list[Text]
    first: int = 0


def frame(top: Top | None, view: View, width: int, height: int, note: str = "", slow: Slow | None = None) -> Frame:
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
    if view.slow:
        shown, at = slow_frame(slow or Slow(), partial(_matches, view), width, room, view.first)
    else:
        shown, at = _tasks_and_actors(top, view, width, room, roomy)
    lines += shown
    lines += [Text()] * (height - 1 - len(lines)) + [footer]
    return Frame(_fitted(lines, width, height), at)


def _tasks_and_actors(top: Top, view: View, width: int, room: int, roomy: bool) -> tuple[list[Text], int]:
    actors = table(_ACTORS, [row for row in top.actors if _matches(view, row.actor_id)], width) if roomy else []
    actors = [Text(), *actors[: max(3, room // 3)]] if len(actors) > 1 else []
    tasks = table(_task_columns(top), _chosen(top, view), width, view.sort)
    room -= len(actors) + 1
    at = min(view.first, max(0, len(tasks) - 1 - max(0, room)))
    return [*tasks[:1], *tasks[1 + at : 1 + at + max(0, room)], *actors], at


def plain(top: Top, slow: Slow, width: int) -> list[Text]:
    """Returns all there is to show, for an output that is no terminal."""
    lines = [Text(_told(finding), style=LEVEL_STYLES[finding.level]) for finding in top.findings]
    lines += [_headline(top, View()), Text(), *table(_task_columns(top), _chosen(top, View()), width)]
    return [*lines, Text(), *table(_ACTORS, top.actors, width), Text(), *slow_lines(slow, width)]


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
    keys = "w tasks" if view.slow else "w why slow  b t a s l r u sort"
    return Text(f"q quit  h help  / filter  p pause  {keys}{filtered}", style="dim")


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


def _task_columns(top: Top) -> list[Column[TaskRow]]:
    has_standbys = any(row.standbys for row in top.tasks)
    return _TASKS if has_standbys else _TASKS[:-1]


_TASKS: list[Column[TaskRow]] = [
    Column("TASK", lambda row: Text(str(row.task_id)), 0, key=Sort.TASK),
    Column("ACTOR", lambda row: Text(row.actor_id or "-"), 4, key=Sort.ACTOR),
    Column("STATE", _state, 3, key=Sort.STATE),
    Column("BEHIND", _behind, 1, right=True, key=Sort.BEHIND),
    Column("LAG", lambda row: count_text(row.lag), 2, right=True, key=Sort.LAG),
    Column("REC/S", lambda row: count_text(row.records_per_s), 5, right=True, key=Sort.RATE),
    Column("BUSY", lambda row: share_text(row.busy), 6, right=True, key=Sort.BUSY),
    Column("STANDBYS", lambda row: Text(standbys_text(row.standbys)), 7),
]
_ACTORS: list[Column[ActorRow]] = [
    Column("ACTOR", lambda row: Text(row.actor_id), 0),
    Column("STATE", lambda row: Text(row.state, style="" if row.state == "running" else "yellow"), 3),
    Column("BUSY", lambda row: share_text(row.busy), 1, right=True),
    Column("COMMIT PAUSE p50", lambda row: Text(f"{row.commit_pause_p50_ms:,.1f} ms"), 5, right=True),
    Column("max", lambda row: Text(f"{row.commit_pause_max_ms:,.1f} ms"), 2, right=True),
    Column("COMMITS", lambda row: count_text(row.commits), 6, right=True),
    Column("TASKS", lambda row: count_text(row.tasks), 4, right=True),
    Column("STANDBYS", lambda row: count_text(row.standbys), 7, right=True),
    Column("NODE", lambda row: Text(row.node_id[:8]), 8),
]
