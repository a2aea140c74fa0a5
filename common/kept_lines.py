"""Keeps the last warnings and errors that a process has logged, for a process that shows those of all."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from structlog.typing import EventDict, WrappedLogger

from penstock.common.log_line import LogLine
from penstock.common.shown import shown

MOST_LINES = 200
MOST_AT_ONCE = 50
_LONGEST_TEXT = 400
_LEVELS = {"warning": "warning", "warn": "warning", "error": "error", "critical": "error", "exception": "error"}
_NOT_SHOWN = frozenset(
    {"event", "level", "timestamp", "source", "application", "actor", "task", "error", "exc_info", "stack_info"}
)


@dataclass
class _Kept:
    line: LogLine
    given: int = field(default=0)


class KeptLines:
    """The last lines of a process. Its threads may log, and :meth:`give` may be called, at the same time."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._clock_ms = clock_ms
        self._kept: deque[_Kept] = deque(maxlen=MOST_LINES)
        self._number = 0
        self._lock = threading.Lock()

    def keep(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Keep a line, as a processor of structlog; returns it as it is."""
        level = _LEVELS.get(str(event.get("level", method)))
        if level is not None:
            text, actor, task = line_text(event), event.get("actor"), event.get("task")
            with self._lock:
                line = LogLine(
                    self._number, self._clock_ms(), level, str(event.get("event"))[:_LONGEST_TEXT], text,
                    None if actor is None else str(actor)[:_LONGEST_TEXT],
                    None if task is None else str(task)[:_LONGEST_TEXT],
                )  # fmt: skip
                self._number += 1
                self._kept.append(_Kept(line))
        return event

    def give(self, times: int) -> tuple[LogLine, ...]:
        """Returns the oldest lines, at most MOST_AT_ONCE. Each is given ``times`` times, because the answer that has it
        may be lost; the receiver knows by the number which it has."""
        with self._lock:
            given = [kept for kept, _ in zip(self._kept, range(MOST_AT_ONCE), strict=False)]
            for kept in given:
                kept.given += 1
            while self._kept and self._kept[0].given >= times:
                self._kept.popleft()
        return tuple(kept.line for kept in given)


def line_text(event: EventDict) -> str:
    """Returns a line as one text: the event, its error, and its other fields in parentheses."""
    error = event.get("error")
    if error is None:
        error = _exception(event.get("exc_info"))
    named = "" if error is None else _shown(error)  # of a program's own line it may be anything, such as an array
    others = ", ".join(f"{name}={_shown(value)}" for name, value in event.items() if name not in _NOT_SHOWN)
    text = f"{event.get('event')}{f': {named}' if named else ''}{f' ({others})' if others else ''}"
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else shown(value)


def _exception(given: Any) -> str | None:
    """Returns the exception that ``exc_info`` of a line names, as text; None if that is none."""
    error = given[1] if isinstance(given, tuple) and len(given) == 3 else given
    if not isinstance(error, BaseException):
        return None
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ may raise anything
        return type(error).__name__
