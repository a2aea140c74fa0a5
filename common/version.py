"""The version of the installed penstock, whose distribution is called ``penstock-streams``."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _installed


@cache  # reading it takes milliseconds
def version() -> str:
    """Returns the version of penstock that was installed at the first call; ``0+unpackaged`` if it is imported from its
    sources alone."""
    try:
        return _installed("penstock-streams")
    except PackageNotFoundError:
        return "0+unpackaged"
