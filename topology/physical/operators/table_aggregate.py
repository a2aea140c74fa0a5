"""The operators that group a table and aggregate the groups, as values.

Between the two is a repartition topic of changes: (value that is added or None, value that is taken away or None).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.topology.physical.operators.operator import AGGREGATE, KEY, VALUE, Operator, TableOperator, called_with


@dataclass(frozen=True)
class TableGroupBy(Operator):
    """``selector(key, value)`` returns (group key, value) of the new and of the old value of each update.

    It forwards a single change if both belong to the same group, else that of the old one first. What is null, or has a
    null part, is left out. A null key in the table is an error.
    """

    selector: Callable[[Any, Any], tuple[Any, Any] | None] = field(metadata=called_with(KEY, VALUE))
    of_versions: bool = False
    """True if the table is versioned: then updates that are not the latest of their key are left out."""

    call = "group_by"
    keeps_key = keeps_value = False


@dataclass(frozen=True)
class TableCount(TableOperator):
    """Counts the values of each group."""

    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class TableAggregate(TableOperator):
    """``subtractor`` for the value that is taken away, then ``adder`` for the new one, each of (key, value, aggregate).

    The adder begins with ``initializer()`` if there is no aggregate; then nothing is subtracted. None deletes.
    """

    initializer: Callable[[], Any] = field(metadata=called_with())
    adder: Callable[[Any, Any, Any], Any] = field(metadata=called_with(KEY, VALUE, AGGREGATE))
    subtractor: Callable[[Any, Any, Any], Any] = field(metadata=called_with(KEY, VALUE, AGGREGATE))

    call = "aggregate"
    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class TableReduce(TableOperator):
    """Like :class:`TableAggregate`, with functions of (aggregate, value), beginning with the first value."""

    adder: Callable[[Any, Any], Any] = field(metadata=called_with(AGGREGATE, VALUE))
    subtractor: Callable[[Any, Any], Any] = field(metadata=called_with(AGGREGATE, VALUE))

    call = "reduce"
    keeps_key, keeps_value = True, False
