"""The text of an error that ended an actor's work."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable

from structlog.stdlib import BoundLogger

from penstock.common.errors import RecordError, StreamsError


def describe_error(error: BaseException) -> str:
    """What happened to which record, with the way into the user's code; of an unexpected error the whole traceback."""
    if not isinstance(error, StreamsError):
        return "".join(traceback.format_exception(error)).rstrip()
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, RecordError) and error.__cause__ is not None:
        text += "\n" + "".join(traceback.format_exception(error.__cause__)).rstrip()
    return text


def close_all(closing: Iterable[Callable[[], None]], log: BoundLogger) -> None:
    """Call all of these, whatever one of them raises."""
    for close in closing:
        try:
            close()
        except Exception as problem:
            log.error("closing failed", error=describe_error(problem))
