"""``SessionWindowedKStream``: records grouped by key and session, to be aggregated."""

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
from penstock.topology.options.session_stores import session_store
from penstock.topology.options.session_windows import SessionWindows
from penstock.topology.options.windows import EmitStrategy, checked_emit_strategy
from penstock.topology.physical.operators.folds import Count, Reduce
from penstock.topology.physical.operators.sessions import MergingAggregate, SessionFold, SessionWindowAggregate

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class SessionWindowedKStream(Generic[K, V]):
    """Records grouped by key and session. Mirrors ``SessionWindowedKStream``; made by ``windowed_by``.

    Every aggregate keeps one value per key and session in a session store with a changelog. Its result is a table of
    windowed keys (:class:`~penstock.common.windows.Windowed`), whose window goes from the first to the last record of
    the session; the timestamp of an update is the session's end.

    A record that makes a session longer, or merges several, deletes the old sessions and adds the new one: downstream
    gets a deletion for each of them, then the new aggregate. With caching on (the default), the updates wait for the
    commit, and downstream gets only the last one of each session.

    A record that is later than the grace period allows is dropped, and counted in ``dropped-records-total``, unless it
    belongs to a session that still takes records. A record with a null key is dropped and counted, too. One with a null
    value is counted like any other; reducers and aggregators are given None.
    """

    def __init__(
        self, aggregates: GroupedAggregates, windows: SessionWindows, emit_strategy: EmitStrategy | None = None
    ) -> None:
        self._aggregates = aggregates
        self._windows = windows
        self._on_close = emit_strategy is not None and emit_strategy.on_close

    def emit_strategy(self, emit_strategy: EmitStrategy) -> SessionWindowedKStream[K, V]:
        """Returns the same grouped records, whose results are emitted as ``emit_strategy`` says. Mirrors
        ``emitStrategy``.

        >>> import penstock as ps
        >>> clicks = ps.StreamsBuilder().stream("clicks").group_by_key()
        >>> visits = clicks.windowed_by(ps.SessionWindows.of_inactivity_gap_and_grace(60_000, 5_000))
        >>> lengths = visits.emit_strategy(ps.EmitStrategy.on_window_close()).count()
        """
        strategy = checked_emit_strategy(emit_strategy, self._windows)
        return SessionWindowedKStream(self._aggregates, self._windows, strategy)

    def count(
        self, materialized: Materialized[K, int] | None = None, *, named: NameLike | None = None
    ) -> KTable[Windowed[K], int]:
        """Counts the records of each session; stored as a long by default. Mirrors ``count``."""
        checked_option(materialized, Materialized, "count")
        self._aggregates.use_up_store_name(materialized)
        return self._aggregated("count", Count(), AGGREGATE, Serdes.long(), materialized, named)

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combines the values of a session by ``reducer(aggregate, value)``, beginning with the first. Mirrors
        ``reduce``.

        The reducer also combines sessions that become one: the aggregate of the session that ends later is the value. A
        result of None deletes the session. The reducer returns a new object or one of the two as it is: neither may be
        changed, since the store holds the aggregate itself until the commit (docs/PROGRAMS.md).
        """
        checked_function(reducer, "reduce: reducer", "aggregate", "value")
        serde = self._aggregates.grouped.value_serde
        return self._aggregated("reduce", Reduce(reducer), REDUCE, serde, materialized, named)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        merger: Callable[[K, A, A], A],
        materialized: Materialized[K, A] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[Windowed[K], A]:
        """Combines the values of a session by ``aggregator(key, value, aggregate)``. Mirrors ``aggregate``.

        For each record, ``merger(key, aggregate, other)`` merges the aggregates of the sessions that the record belongs
        to (several, one or none) into ``initializer()``, earliest session first; then the aggregator gets the result.
        So an aggregate that is merged with ``initializer()`` must stay equal. A result of None deletes the session. The
        serde of the aggregates is that of ``materialized``, else the configuration's. No function may change an
        aggregate that it is given, and ``initializer`` must return a new (or an immutable) object at each call
        (docs/PROGRAMS.md).

        >>> import penstock as ps
        >>> clicks = ps.StreamsBuilder().stream("clicks").group_by_key()
        >>> visits = clicks.windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(60_000)).aggregate(
        ...     list,
        ...     lambda user, page, pages: [*pages, page],
        ...     lambda user, pages, others: pages + others,
        ...     ps.Materialized.as_("visits").with_value_serde(ps.Serdes.json()),
        ... )
        """
        checked_function(initializer, "aggregate: initializer")
        checked_function(aggregator, "aggregate: aggregator", "key", "value", "aggregate")
        checked_function(merger, "aggregate: merger", "key", "aggregate", "other")
        fold = MergingAggregate(initializer, aggregator, merger)
        return self._aggregated("aggregate", fold, AGGREGATE, None, materialized, named)

    def _aggregated(
        self,
        call: str,
        fold: SessionFold,
        prefix: str,
        value_serde: Serde[Any] | None,
        materialized: Materialized[Any, Any] | None,
        named: NameLike | None,
    ) -> KTable[Windowed[K], Any]:
        checked_option(materialized, Materialized, call)
        how, windows, on_close = materialized or Materialized(), self._windows, self._on_close
        return self._aggregates.table(
            call,
            SessionWindowAggregate(windows, fold, on_close),
            prefix,
            how,
            named,
            lambda name: session_store(how, windows, on_close, name, self._aggregates.grouped.key_serde, value_serde),
            WindowedSerdes.session_windowed_serde_from,
        )
