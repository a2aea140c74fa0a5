"""Aggregates of sessions as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.topology.physical.folds import Aggregate, Count, Reduce
from penstock.topology.physical.operator import AGGREGATE, KEY, TableOperator, called_with
from penstock.topology.session_windows import SessionWindows


@dataclass(frozen=True)
class MergingAggregate(Aggregate):
    """``aggregator(key, value, aggregate)``, where the aggregate is ``initializer()`` and, one after the other, those
    of the sessions that the record belongs to, put together by ``merger(key, aggregate, other)``."""

    merger: Callable[[Any, Any, Any], Any] = field(metadata=called_with(KEY, AGGREGATE, AGGREGATE))


SessionFold = Count | Reduce | MergingAggregate
"""Counts are added, and reduced values are reduced, where sessions become one."""


@dataclass(frozen=True)
class SessionWindowAggregate(TableOperator):
    """``fold`` per key and session in ``store``. A null key is dropped and counted, a null value is not.

    What it forwards has windowed keys. ``on_close``: once a session takes no more records, instead of each update.
    """

    windows: SessionWindows
    fold: SessionFold
    on_close: bool = False

    keeps_key = keeps_value = False
    makes_windowed_keys = True

    @property
    def window_grace_ms(self) -> int | None:
        """How long after its end a session takes records, by stream time."""
        return self.windows.inactivity_gap_ms + self.windows.grace_period_ms
