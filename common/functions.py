"""The place of a function in the program's files."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FunctionPlace:
    """A function's qualified name; ``file`` and ``line`` (from 1) of its definition, None if it has no code of Python.
    An object that can be called has the name of its class."""

    name: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return self.name if self.file is None else f"{self.name} ({self.file}:{self.line})"


def place_of(function: Callable[..., Any]) -> FunctionPlace:
    """Returns the place of ``function``; of a partial, that of the function that it calls."""
    while isinstance(function, functools.partial):
        function = function.func
    name = str(getattr(function, "__qualname__", None) or type(function).__qualname__)
    code = getattr(function, "__code__", None)
    return FunctionPlace(name, code.co_filename, code.co_firstlineno) if code else FunctionPlace(name)


def place_with_class_of(function: Callable[..., Any]) -> FunctionPlace:
    """Returns what :func:`place_of` does. If ``function`` is a class, or an object with ``__call__``, finds the
    definition of the class, too, for which it reads the file."""
    place = place_of(function)
    while isinstance(function, functools.partial):
        function = function.func
    if place.file is not None or inspect.isbuiltin(function):
        return place
    kind = function if isinstance(function, type) else type(function)
    try:
        return FunctionPlace(place.name, inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1])
    except (OSError, TypeError):  # its file is not here, or it has none
        return place
