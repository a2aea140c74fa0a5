"""Registry of the functions that make the closures of operators: each registers itself by a decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.tasks.wiring import Wiring
from penstock.topology.physical.operators.operator import Operator, ValueGetter, WithFunctions

S = TypeVar("S", bound=WithFunctions)
C = TypeVar("C", bound=Callable[..., Any])

MAKERS: dict[type[WithFunctions], Callable[[Any, Wiring], Callable[..., Any]]] = {}


def closure_of(spec: type[S]) -> Callable[[Callable[[S, Wiring], C]], Callable[[S, Wiring], C]]:
    """Returns a decorator: its function makes the closures of operators, or of look-ups, of the type ``spec``.

    The decorator raises TypeError if another function does so already.
    """

    def register(make: Callable[[S, Wiring], C]) -> Callable[[S, Wiring], C]:
        if spec in MAKERS:
            raise TypeError(f"two functions make the closure of {spec.__name__}: {MAKERS[spec]} and {make}")
        MAKERS[spec] = make
        return make

    return register


def make_closure(spec: Operator | ValueGetter, wiring: Wiring) -> Callable[..., Any]:
    """Returns the closure of ``spec``: the edge into an operator, or the function from a key to a table's value."""
    return MAKERS[type(spec)](spec, wiring)
