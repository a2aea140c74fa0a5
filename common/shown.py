"""Formats values of a program for messages and log lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST_TEXT = 200


def shown(value: object) -> str:
    """Returns ``repr`` of ``value``, cut to a length that can be read. Never raises, whatever its ``__repr__`` does."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__qualname__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"


def counted(count: int, noun: str) -> str:
    """Returns a number of things as text, such as ``1 record`` and ``2,000 records``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def seconds_text(seconds: float) -> str:
    """Returns a time as text to be read at a glance: ``0.3 s``, ``41 s``, ``12 min``, ``3 h``, ``5 days``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86_400:,.0f} days"


def similar_to(name: str, names: Iterable[str]) -> str:
    """Returns those of ``names`` that resemble ``name``, as messages show them: `` (similar: clicks)``, or no text."""
    similar = difflib.get_close_matches(name, list(names), 3)
    return f" (similar: {', '.join(similar)})" if similar else ""


def shown_with_type(value: object) -> str:
    """Returns what :func:`shown` returns, followed by the type: ``{'n': 1} (dict)``."""
    return f"{shown(value)} ({type(value).__qualname__})"
