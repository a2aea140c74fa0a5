"""Aggregates of a stream by key, as values. A record with a null key or value is dropped and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.topology.physical.operators.operator import (
    AGGREGATE,
    KEY,
    VALUE,
    TableOperator,
    called_with,
)


@dataclass(frozen=True)
class StreamCount(TableOperator):
    """Count per key in ``store``. Values that are null are dropped, as in every aggregate of a stream."""

    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class StreamAggregate(TableOperator):
    """``aggregator(key, value, aggregate)`` per key in ``store``, beginning with ``initializer()``; None deletes."""

    initializer: Callable[[], Any] = field(metadata=called_with())
    aggregator: Callable[[Any, Any, Any], Any] = field(metadata=called_with(KEY, VALUE, AGGREGATE))

    call = "aggregate"
    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class StreamReduce(TableOperator):
    """``reducer(aggregate, value)`` per key in ``store``, beginning with the first value; None deletes."""

    reducer: Callable[[Any, Any], Any] = field(metadata=called_with(AGGREGATE, VALUE))

    call = "reduce"
    keeps_key, keeps_value = True, False
