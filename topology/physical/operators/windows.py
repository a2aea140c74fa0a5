"""Aggregates in time windows and sliding windows, as values."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from penstock.topology.options.windows import SlidingWindows, TimeWindows, UnlimitedWindows
from penstock.topology.physical.operators.folds import Fold
from penstock.topology.physical.operators.operator import TableOperator


@dataclass(frozen=True)
class TimeWindowAggregate(TableOperator):
    """``fold`` per key and window in ``store``. A null key is dropped and counted, a null value is not.

    It forwards windowed keys. ``on_close``: it forwards when a window takes no more records, not at each update.
    ``shares_store``: other operators write the store, too, and may be ahead of this one in time.
    """

    windows: TimeWindows | UnlimitedWindows
    fold: Fold
    on_close: bool = False
    shares_store: bool = False

    keeps_key = keeps_value = False
    makes_windowed_keys = True

    @property
    @override
    def window_grace_ms(self) -> int | None:
        return self.windows.grace_period_ms


@dataclass(frozen=True)
class SlidingWindowAggregate(TableOperator):
    """Like :class:`TimeWindowAggregate`, in sliding windows; a null value is dropped and counted, too."""

    windows: SlidingWindows
    fold: Fold
    on_close: bool = False

    keeps_key = keeps_value = False
    makes_windowed_keys = True

    @property
    @override
    def window_grace_ms(self) -> int | None:
        return self.windows.grace_period_ms
