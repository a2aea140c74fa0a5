"""Aggregates of sessions as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.topology.options.session_windows import SessionWindows
from penstock.topology.physical.operators.folds import Aggregate, Count, Reduce
from penstock.topology.physical.operators.operator import AGGREGATE, KEY, TableOperator, called_with


@dataclass(frozen=True)
class MergingAggregate(Aggregate):
    """``aggregator(key, value, aggregate)``: ``aggregate`` is ``initializer()``, merged with that of each session that
    the record belongs to, one after the other, by ``merger(key, aggregate, other)``."""

    merger: Callable[[Any, Any, Any], Any] = field(metadata=called_with(KEY, AGGREGATE, AGGREGATE))


SessionFold = Count | Reduce | MergingAggregate
"""Counts are added, and reduced values are reduced, when sessions become one."""


@dataclass(frozen=True)
class SessionWindowAggregate(TableOperator):
    """``fold`` per key and session in ``store``. A null key is dropped and counted, a null value is not.

    It forwards windowed keys. ``on_close``: it forwards when a session takes no more records, not at each update.
    """

    windows: SessionWindows
    fold: SessionFold
    on_close: bool = False

    keeps_key = keeps_value = False
    makes_windowed_keys = True

    @property
    def window_grace_ms(self) -> int | None:
        """Stream time (ms) for which a session takes records after its end."""
        return self.windows.inactivity_gap_ms + self.windows.grace_period_ms
