"""Telling apart, once, when the program is written, the user functions that want the key from those that do not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock.common.errors import TopologyError


def checked_callable(function: Any, what: str) -> None:
    """Raises TopologyError when ``function`` cannot be called; ``what`` names it (``map_values: mapper``)."""
    if not callable(function):
        raise TopologyError(f"{what} must be callable, not {function!r} ({type(function).__name__})")


def takes_key(function: Callable[..., Any], values: int, what: str) -> bool:
    """Whether ``function`` is to be called with the key in front of ``values`` other arguments.

    It is when it cannot be called with ``values`` arguments but can with one more. Parameters that have a default are
    left to their default. A builtin that does not tell its parameters (``int``) gets no key. Raises TopologyError when
    neither call is possible.
    """
    checked_callable(function, what)
    try:
        signature = inspect.signature(function)
    except ValueError:
        return False
    if _accepts(signature, values):
        return False
    if _accepts(signature, values + 1):
        return True
    raise TopologyError(
        f"{what} must take {values} argument{'s' if values > 1 else ''}, or {values + 1} with the key in front: "
        f"{getattr(function, '__qualname__', function)!s} takes {signature}"
    )


def _accepts(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
