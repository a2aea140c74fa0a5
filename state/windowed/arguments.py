"""Calls that take one key or two, and one time or two, as ``fetch`` does: by position, or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FETCH = (("key", "time"), ("key", "time_from", "time_to"), ("key_from", "key_to", "time_from", "time_to"))
BACKWARD_FETCH = FETCH[1:]
FIND_SESSIONS = (
    ("key", "earliest_session_end", "latest_session_start"),
    ("key_from", "key_to", "earliest_session_end", "latest_session_start"),
)
FETCH_SESSIONS = (("key",), ("key_from", "key_to"))


def in_places(
    method: str, forms: Sequence[tuple[str, ...]], given: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The arguments of a call in the order of the one of its ``forms`` that it has. Raises TypeError if it has none."""
    for form in forms:
        if len(form) == len(given) + len(named) and named.keys() == set(form[len(given) :]):
            return (*given, *(named[name] for name in form[len(given) :]))
    *others, last = (f"({', '.join(form)})" for form in forms)
    raise TypeError(f"{method} takes {', '.join(others)} or {last}")
