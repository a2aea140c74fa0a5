"""``TimeWindowedKStream``: records grouped by key and window of time, to be aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.common.serdes import Serde, Serdes
from penstock.common.windowed_serdes import WindowedSerdes
from penstock.common.windows import Windowed
from penstock.topology.arity import checked_function
from penstock.topology.dsl.aggregates import AGGREGATE, REDUCE, GroupedAggregates
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import NameLike, checked_option
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.window_stores import window_store
from penstock.topology.options.windows import (
    EmitStrategy,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    checked_emit_strategy,
)
from penstock.topology.physical.operators.folds import Aggregate, Count, Fold, Reduce
from penstock.topology.physical.operators.operator import TableOperator
from penstock.topology.physical.operators.windows import SlidingWindowAggregate, TimeWindowAggregate

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class TimeWindowedKStream(Generic[K, V]):
    """Records grouped by key and window. Mirrors ``TimeWindowedKStream``; made by ``windowed_by``.

    Every aggregate keeps one value per key and window in a window store with a changelog. Its result is a table of
    windowed keys (:class:`~penstock.common.windows.Windowed`); an aggregate has the largest timestamp of its records.

    A window takes records until the stream time that the operator has observed passes its end by the grace period; a
    record that is later is dropped for that window, and counted in ``dropped-records-total``. A record with a null key
    is dropped and counted. One with a null value is counted like any other in time windows, where reducers and
    aggregators are given None; in sliding windows it is dropped and counted.

    With caching on (the default), downstream sees the last update per window and commit.
    """

    def __init__(
        self,
        aggregates: GroupedAggregates,
        windows: TimeWindows | UnlimitedWindows | SlidingWindows,
        emit_strategy: EmitStrategy | None = None,
    ) -> None:
        self._aggregates = aggregates
        self._windows = windows
        self._on_close = emit_strategy is not None and emit_strategy.on_close

    def emit_strategy(self, emit_strategy: EmitStrategy) -> TimeWindowedKStream[K, V]:
        """Returns the same grouped records, whose results are emitted as ``emit_strategy`` says. Mirrors
        ``emitStrategy``.

        Raises TopologyError for unlimited windows that are to be emitted on close.

        >>> import penstock as ps
        >>> clicks = ps.StreamsBuilder().stream("clicks").group_by_key()
        >>> windows = ps.TimeWindows.of_size_and_grace(60_000, 5_000)
        >>> totals = clicks.windowed_by(windows).emit_strategy(ps.EmitStrategy.on_window_close()).count()
        """
        return TimeWindowedKStream(self._aggregates, self._windows, checked_emit_strategy(emit_strategy, self._windows))

    def count(
        self, materialized: Materialized[K, int] | None = None, *, named: NameLike | None = None
    ) -> KTable[Windowed[K], int]:
        """Counts the records of each key in each window; stored as a long by default. Mirrors ``count``."""
        checked_option(materialized, Materialized, "count")
        if not isinstance(self._windows, SlidingWindows):
            self._aggregates.use_up_store_name(materialized)
        return self._aggregated("count", Count(), AGGREGATE, Serdes.long(), materialized, named)

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combines the values of a window by ``reducer(aggregate, value)``, beginning with the first. Mirrors
        ``reduce``.

        A result of None deletes the window's aggregate. The reducer returns a new object or one of the two as it is:
        neither may be changed, since the store holds the aggregate itself until the commit (docs/PROGRAMS.md).
        """
        checked_function(reducer, "reduce: reducer", "aggregate", "value")
        serde = self._aggregates.grouped.value_serde
        return self._aggregated("reduce", Reduce(reducer), REDUCE, serde, materialized, named)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        materialized: Materialized[K, A] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[Windowed[K], A]:
        """Combines the values of a window by ``aggregator(key, value, aggregate)``, beginning with ``initializer()``.

        A result of None deletes the window's aggregate. The serde of the aggregates is that of ``materialized``, else
        the configuration's. The aggregator must return a new object and not change the one it is given, and
        ``initializer`` must return a new (or an immutable) object at each call (docs/PROGRAMS.md). Mirrors
        ``aggregate``.

        >>> import penstock as ps
        >>> clicks = ps.StreamsBuilder().stream("clicks").group_by_key()
        >>> last_minute = clicks.windowed_by(ps.SlidingWindows.of_time_difference_with_no_grace(60_000))
        >>> pages = last_minute.aggregate(list, lambda user, page, pages: [*pages, page], ps.Materialized.as_("pages"))
        """
        checked_function(initializer, "aggregate: initializer")
        checked_function(aggregator, "aggregate: aggregator", "key", "value", "aggregate")
        fold = Aggregate(initializer, aggregator)
        return self._aggregated("aggregate", fold, AGGREGATE, None, materialized, named)

    def _aggregated(
        self,
        call: str,
        fold: Fold,
        prefix: str,
        value_serde: Serde[Any] | None,
        materialized: Materialized[Any, Any] | None,
        named: NameLike | None,
    ) -> KTable[Windowed[K], Any]:
        checked_option(materialized, Materialized, call)
        how, windows, on_close = materialized or Materialized(), self._windows, self._on_close
        operator: TableOperator
        if isinstance(windows, SlidingWindows):
            size_ms, operator = windows.time_difference_ms, SlidingWindowAggregate(windows, fold, on_close)
        else:
            size_ms, operator = windows.size_ms, TimeWindowAggregate(windows, fold, on_close)
        return self._aggregates.table(
            call,
            operator,
            prefix,
            how,
            named,
            lambda name: window_store(how, windows, on_close, name, self._aggregates.grouped.key_serde, value_serde),
            lambda inner: WindowedSerdes.time_windowed_serde_from(inner, size_ms),
        )
