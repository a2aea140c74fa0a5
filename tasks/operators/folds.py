"""The functions of an aggregate, of any kind, as two functions of one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.topology.physical.operators.folds import Aggregate, Count, Fold, Reduce

Initial = Callable[[], Any]
Next = Callable[[Any, Any, Any], Any]
"""(key, value, aggregate)"""


def functions_of(fold: Fold) -> tuple[Initial, Next]:
    """Returns two functions: one returns the initial aggregate, one the next from (key, value, aggregate)."""
    match fold:
        case Count():
            return _zero, _one_more
        case Reduce(reducer):
            return _nothing, lambda key, value, aggregate: value if aggregate is None else reducer(aggregate, value)
        case Aggregate(initializer, aggregator):
            return initializer, aggregator


def _zero() -> int:
    return 0


def _one_more(key: Any, value: Any, aggregate: int) -> int:
    return aggregate + 1


def _nothing() -> None:
    return None
