"""The keys of ``penstock top``: what each of them changes. Pure: bytes go in, the view comes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

HELP = (
    ("w", "why it is slow: the busiest operators, the time of actors; again: the tasks"),
    ("b t a s l r u", "sort by BEHIND, TASK, ACTOR, STATE, LAG, REC/S, BUSY"),
    ("", "the same key again reverses the order"),
    ("/", "show only tasks and actors that contain a text"),
    ("", "Enter keeps the filter, Esc removes it"),
    ("p or space", "pause the view; again: continue"),
    ("arrows, PgUp, PgDn", "scroll"),
    ("h or ?", "this help; any key closes it"),
    ("q", "quit"),
)


class Sort(Enum):
    """The columns that tasks are sorted by, with their keys."""

    BEHIND = "b"
    TASK = "t"
    ACTOR = "a"
    STATE = "s"
    LAG = "l"
    RATE = "r"
    BUSY = "u"


@dataclass(frozen=True)
class View:
    """The user's choices. ``typing``: the text of a filter that is being typed, None if none is. ``slow``: operators
    and the time of actors are shown instead of tasks. ``first``: the number of tasks, or actors, above the window."""

    sort: Sort = Sort.BEHIND
    reverse: bool = False
    filter: str = ""
    typing: str | None = None
    paused: bool = False
    help: bool = False
    quit: bool = False
    slow: bool = False
    first: int = 0

    @property
    def shown_filter(self) -> str:
        """The filter that holds now, also while it is being typed."""
        return self.filter if self.typing is None else self.typing


_SORTS = {sort.value: sort for sort in Sort}
_SEQUENCES = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1b[F": "end",
}
_ALL = 1_000_000
_SCROLLS = {"up": -1, "down": 1, "page up": -10, "page down": 10, "home": -_ALL, "end": _ALL}


def keys_of(data: bytes) -> Iterator[str]:
    """Yields the keys that a terminal sent: characters, ``up`` … for arrows, ``esc``. Other sequences are left out."""
    text = data.decode(errors="ignore")
    while text:
        known = next((each for each in _SEQUENCES if text.startswith(each)), None)
        if known is not None:
            yield _SEQUENCES[known]
            text = text[len(known) :]
        elif text.startswith(("\x1b[", "\x1bO")):
            end = next((at for at, letter in enumerate(text[2:], 3) if letter.isalpha() or letter == "~"), len(text))
            text = text[end:]
        else:
            yield "esc" if text[0] == "\x1b" else text[0]
            text = text[1:]


def pressed(view: View, key: str) -> View:
    """Returns the view after ``key``."""
    if view.typing is not None:
        return _typed(view, view.typing, key)
    if view.help:
        return replace(view, help=False)
    if key in _SORTS and not view.slow:
        sort = _SORTS[key]
        return replace(view, sort=sort, reverse=sort is view.sort and not view.reverse, first=0)
    if key in _SCROLLS:
        return replace(view, first=max(0, view.first + _SCROLLS[key]))
    match key:
        case "/":
            return replace(view, typing=view.filter, first=0)
        case "esc":
            return replace(view, filter="")
        case "w":
            return replace(view, slow=not view.slow, first=0)
        case "p" | " ":
            return replace(view, paused=not view.paused)
        case "h" | "?":
            return replace(view, help=True)
        case "q":
            return replace(view, quit=True)
        case _:
            return view


def _typed(view: View, text: str, key: str) -> View:
    match key:
        case "\r" | "\n":
            return replace(view, filter=text, typing=None)
        case "esc":
            return replace(view, filter="", typing=None)
        case "\x7f" | "\x08":
            return replace(view, typing=text[:-1])
        case _:
            return replace(view, typing=text + key) if len(key) == 1 and key.isprintable() else view
