"""A line of the log as a value, which may travel to another process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogLine:
    """A warning or an error. ``number`` counts those of its process from 0."""

    number: int
    at_ms: int
    level: str
    event: str
    """The constant text of the line."""
    text: str
    """The text with its error and its other fields, of one line, clipped."""
    actor: str | None
    task: str | None
