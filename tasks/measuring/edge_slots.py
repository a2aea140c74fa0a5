"""The places from which composed closures call the edges of other nodes: a measured run puts timed edges there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

_OURS = "penstock.tasks."
_OPERATORS = "penstock.tasks.operators."
LEADS_TO = "LEADS_TO"
"""A class of operators names here the attributes of its instances that lead to edges."""


@dataclass(frozen=True)
class Slot:
    """A place that holds ``edge``, the edge into ``node``. ``put`` puts another one there."""

    node: str
    edge: Callable[..., None]
    put: Callable[[Callable[..., None]], None]


def own_function(edge: Callable[..., None]) -> Callable[..., None]:
    """Returns a copy of ``edge`` that does the same at the same cost, for a node that takes its child's edge as its
    own: each edge must be an object of one node alone."""
    if type(edge) is not FunctionType:
        return edge
    copied = FunctionType(edge.__code__, edge.__globals__, edge.__name__, edge.__defaults__, edge.__closure__)
    copied.__kwdefaults__, copied.__qualname__, copied.__module__ = (
        edge.__kwdefaults__,
        edge.__qualname__,
        edge.__module__,
    )
    return copied


def slots_of(roots: Iterable[object], edges: Mapping[str, Callable[..., None]]) -> list[Slot]:
    """Returns all places that hold one of ``edges`` (by node) and that can be reached from ``roots`` without passing
    another edge.

    The walk enters closures and objects of this package alone, so it meets neither rows of stores nor users' objects.
    """
    nodes = {id(edge): node for node, edge in edges.items()}
    slots: list[Slot] = []
    left: list[Any] = list(roots)
    seen: set[int] = set()
    while left:
        holder = left.pop()
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        for content, put in _contents(holder):
            node = nodes.get(id(content))
            if node is None:
                left.append(content)
            else:
                slots.append(Slot(node, content, put))
    return slots


def _contents(holder: Any) -> Iterable[tuple[Any, Callable[[Any], None]]]:
    """Yields what ``holder`` refers to, each with the function that replaces it."""
    kind = type(holder)
    if kind is FunctionType:
        if holder.__module__.startswith(_OURS):
            for cell in holder.__closure__ or ():
                yield cell, _never  # several functions may share it
    elif kind is CellType:
        yield _content(holder), partial(setattr, holder, "cell_contents")
    elif kind is MethodType:
        yield holder.__self__, _never
    elif kind is list:
        if holder and type(holder[0]) is FunctionType:  # of fan_out: others may be long
            for number, content in enumerate(holder):
                yield content, partial(holder.__setitem__, number)
    elif kind is dict:
        if holder and type(next(iter(holder.values()))) is FunctionType:  # the children of a processor
            for name, content in holder.items():
                yield content, partial(holder.__setitem__, name)
    else:
        for name in getattr(kind, LEADS_TO, ()) if str(kind.__module__).startswith(_OPERATORS) else ():
            yield getattr(holder, name), partial(setattr, holder, name)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _never(content: Any) -> None:
    raise AssertionError(f"this is never an edge: {content!r}")
