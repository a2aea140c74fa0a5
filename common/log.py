"""Structured logging: one logger per module, key=value lines on standard error."""

from __future__ import annotations

import sys

import structlog


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of module ``name``: ``__name__``. Whoever configures structlog decides; else lines go to standard
    error."""
    if not structlog.is_configured():
        structlog.configure(logger_factory=_standard_error)
    bound: structlog.stdlib.BoundLogger = structlog.get_logger(source=name)
    return bound


def _standard_error(*_: object) -> structlog.PrintLogger:
    return structlog.PrintLogger(sys.stderr)
