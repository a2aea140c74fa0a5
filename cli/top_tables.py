"""Tables of ``penstock top``: the columns that fit a window, one line a row. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.text import Text

from penstock.cli.top_keys import Sort
from penstock.cluster.findings import BUSY

_GAP = 2
R = TypeVar("R")


@dataclass(frozen=True)
class Column(Generic[R]):
    """A column of rows. Those with the largest ``rank`` are left out first if the window is narrow. ``key``: the key
    that sorts by it."""

    title: str
    cell: Callable[[R], Text]
    rank: int
    right: bool = False
    key: Sort | None = None


def share_text(share: float | None) -> Text:
    """Returns a share of 0..1, in colour if it counts as busy."""
    return Text("?") if share is None else Text(f"{share:.0%}", style="yellow" if share >= BUSY else "")


def count_text(number: float | None) -> Text:
    """Returns a number without decimals."""
    return Text("?" if number is None else f"{number:,.0f}")


def table(columns: Sequence[Column[R]], rows: Sequence[R], width: int, sort: Sort | None = None) -> list[Text]:
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
