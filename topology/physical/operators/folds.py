"""The functions of aggregates: the part that aggregates in windows of any kind have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.topology.physical.operators.operator import AGGREGATE, KEY, VALUE, WithFunctions, called_with


@dataclass(frozen=True)
class Count(WithFunctions):
    """Counts each value, a null one too."""

    call = "count"


@dataclass(frozen=True)
class Reduce(WithFunctions):
    """``reducer(aggregate, value)``, beginning with the first value; None deletes."""

    reducer: Callable[[Any, Any], Any] = field(metadata=called_with(AGGREGATE, VALUE))

    call = "reduce"


@dataclass(frozen=True)
class Aggregate(WithFunctions):
    """``aggregator(key, value, aggregate)``, beginning with ``initializer()``; None deletes."""

    initializer: Callable[[], Any] = field(metadata=called_with())
    aggregator: Callable[[Any, Any, Any], Any] = field(metadata=called_with(KEY, VALUE, AGGREGATE))

    call = "aggregate"


Fold = Count | Reduce | Aggregate
