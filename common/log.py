"""Structured logging: one logger per module, and lines on standard error that name their origin.

A line is text, ``key=value``, or with ``log.format`` at ``json`` an object. In an actor each line has ``application``
and ``actor``. It has ``task`` if it was logged while a task was processing, or is about a task.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Literal

import structlog
from structlog.typing import EventDict, WrappedLogger

from penstock.common.kept_lines import KeptLines

LogFormat = Literal["text", "json"]

_process: dict[str, str] = {}


class _Thread(threading.local):
    task: Callable[[], str | None] | None = None


_thread = _Thread()
KEPT = KeptLines()
"""The last warnings and errors of this process, unless the program has configured structlog itself."""


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Returns the logger of module ``name``: ``__name__``. Lines go to standard error, unless the program configures
    structlog."""
    if not structlog.is_configured():
        _configure("text")
    task = _thread.task() if _thread.task is not None else None
    who = _process if task is None else _process | {"task": task}
    bound: structlog.stdlib.BoundLogger = structlog.get_logger(source=name, **who)
    return bound


def identify(application: str, actor: str) -> None:
    """Adds the application and the actor to every logger that this process makes from now on. For a process that is one
    actor."""
    _process.update(application=application, actor=actor)


def at_work(task: Callable[[], str | None]) -> None:
    """Have every logger that is made in this thread name the task that ``task`` returns, if any."""
    _thread.task = task


def use_format(form: LogFormat) -> None:
    """``log.format``, for loggers that are made from now on, unless the program has configured structlog itself."""
    found = structlog.get_config()
    ours = found["logger_factory"] is _standard_error
    is_json = isinstance(found["processors"][-1], structlog.processors.JSONRenderer)
    if not structlog.is_configured() or (ours and is_json != (form == "json")):
        _configure(form)


def _configure(form: LogFormat) -> None:
    if form == "text":
        structlog.reset_defaults()
        *before, _ = structlog.get_config()["processors"]
        structlog.configure(processors=[*before, KEPT.keep, _text], logger_factory=_standard_error)
        return
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            KEPT.keep,
            structlog.processors.dict_tracebacks,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=_standard_error,
    )


def _standard_error(*_: object) -> structlog.PrintLogger:
    return structlog.PrintLogger(sys.stderr)


_WITH_COLOURS, _PLAIN = structlog.dev.ConsoleRenderer(colors=True), structlog.dev.ConsoleRenderer(colors=False)


def _text(bound: WrappedLogger, method: str, event: EventDict) -> str | bytes:
    """Formats a line, with colours only on a terminal. Checked each time: standard error may be redirected later."""
    coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return (_WITH_COLOURS if coloured else _PLAIN)(bound, method, event)
