"""The version of the installed penstock, whose distribution is called ``penstock-streams``."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _installed


def version() -> str:
    """The version of the installed penstock; ``0+unpackaged`` if it is imported from its sources alone."""
    try:
        return _installed("penstock-streams")
    except PackageNotFoundError:
        return "0+unpackaged"
