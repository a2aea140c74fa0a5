"""Structured logging: one logger per module, key=value lines on standard error."""

from __future__ import annotations

import structlog


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of module ``name``."""
    bound: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return bound
