"""Which penstock this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _installed


def version() -> str:
    """The version of the installed penstock; ``0+unpackaged`` where it is imported from its sources alone."""
    try:
        return _installed("penstock")
    except PackageNotFoundError:
        return "0+unpackaged"
