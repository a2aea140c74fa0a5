"""Checks and copies that the option objects share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serde
from penstock.topology.naming import checked_name

retyped: Callable[..., Any] = replace
"""Returns a changed copy. With another serde its type differs, which ``dataclasses.replace`` does not show to type
checkers."""


def check_serdes(options: object, *fields: str) -> None:
    """Raises TopologyError unless each of these fields of ``options`` is a Serde or None."""
    for field in fields:
        serde = getattr(options, field)
        if serde is not None and not isinstance(serde, Serde):
            owner = type(options).__name__
            raise TopologyError(f"{owner}: {field} must be a Serde, such as Serdes.string(), not {serde!r}")


def check_name(name: str | None, what: str = "name") -> None:
    """Raises TopologyError unless ``name`` is None or a legal name."""
    if name is not None:
        checked_name(name, what)
