"""The pause that the error of a call asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def retry_after_ms(error: BaseException) -> float:
    """Returns the pause in ms before the next try that ``error`` asks for; 0 if it asks for none.

    That is its attribute ``retry_after`` (seconds), or the header ``Retry-After`` of the HTTP response that it has
    (``httpx``, ``requests``, ``aiohttp``), in seconds. A date in that header counts as none: it needs a clock.
    """
    try:
        return max(0.0, 1000 * _seconds(error))
    except Exception:  # the attributes of an unknown error may raise anything; the retry must not depend on that
        return 0.0


def _seconds(error: BaseException) -> float:
    own = getattr(error, "retry_after", None)
    if isinstance(own, int | float):
        return float(own)
    headers: Any = getattr(getattr(error, "response", error), "headers", None)
    if isinstance(headers, Mapping) or hasattr(headers, "get"):
        found = headers.get("Retry-After") or headers.get("retry-after")
        return float(found) if found else 0.0
    return 0.0
