"""``KGroupedStream``: records grouped by key, to be aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from penstock.common.serdes import Serde, Serdes
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.topology.arity import checked_function
from penstock.topology.dsl.aggregates import AGGREGATE, REDUCE, GroupedAggregates
from penstock.topology.dsl.cogrouped_kstream import CogroupedKStream
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.session_windowed_kstream import SessionWindowedKStream
from penstock.topology.dsl.stream_base import NameLike, StreamHead, checked_option
from penstock.topology.dsl.time_windowed_kstream import TimeWindowedKStream
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Grouped
from penstock.topology.options.session_windows import SessionWindows
from penstock.topology.options.windows import SlidingWindows, TimeWindows, UnlimitedWindows, checked_windows
from penstock.topology.physical.operators.aggregate import StreamAggregate, StreamCount, StreamReduce
from penstock.topology.physical.operators.operator import TableOperator

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class KGroupedStream(Generic[K, V]):
    """Records grouped by key. Mirrors ``KGroupedStream``; made by ``group_by`` and ``group_by_key``.

    Every aggregate keeps one value per key in a store with a changelog, is updated in the order of processing, and has
    the largest timestamp of its records. A record with a null key or a null value is dropped and counted in
    ``dropped-records-total``. With caching on (the default), downstream sees the last update per key and commit.
    """

    def __init__(self, head: StreamHead, grouped: Grouped[K, V]) -> None:
        self._aggregates = GroupedAggregates(head, grouped)

    def count(
        self, materialized: Materialized[K, int] | None = None, *, named: NameLike | None = None
    ) -> KTable[K, int]:
        """Counts the records of each key; stored as a long by default. Mirrors ``count``.

        >>> import penstock as ps
        >>> words = ps.StreamsBuilder().stream("words")
        >>> words.group_by(lambda key, word: word).count(ps.Materialized.as_("counts")).queryable_store_name
        'counts'
        """
        checked_option(materialized, Materialized, "count")
        self._aggregates.use_up_store_name(materialized)
        return self._aggregated("count", StreamCount(), AGGREGATE, Serdes.long(), materialized, named)

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, V]:
        """Combines the values of each key by ``reducer(aggregate, value)``, beginning with the first value. Mirrors
        ``reduce``.

        A result of None deletes the aggregate. The reducer returns a new object or one of the two as it is: neither may
        be changed, since the store holds the aggregate itself until the commit (docs/PROGRAMS.md).
        """
        checked_function(reducer, "reduce: reducer", "aggregate", "value")
        return self._aggregated(
            "reduce",
            StreamReduce(reducer),
            REDUCE,
            self._aggregates.grouped.value_serde,
            materialized,
            named,
        )

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        materialized: Materialized[K, A] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, A]:
        """Combines the values of each key by ``aggregator(key, value, aggregate)``, beginning with ``initializer()``.

        A result of None deletes the aggregate. The serde of the aggregates is that of ``materialized``, else the
        configuration's. The store holds the aggregate itself until the commit, so the aggregator must return a new
        object and not change the one it is given, and ``initializer`` must return a new (or an immutable) object at
        each call (docs/PROGRAMS.md). Mirrors ``aggregate``.

        >>> import penstock as ps
        >>> orders = ps.StreamsBuilder().stream("orders").group_by_key()
        >>> baskets = orders.aggregate(list, lambda user, item, basket: [*basket, item], ps.Materialized.as_("baskets"))
        """
        checked_function(initializer, "aggregate: initializer")
        checked_function(aggregator, "aggregate: aggregator", "key", "value", "aggregate")
        return self._aggregated(
            "aggregate",
            StreamAggregate(initializer, aggregator),
            AGGREGATE,
            None,
            materialized,
            named,
        )

    def cogroup(self, aggregator: Callable[[K, V, A], A | None]) -> CogroupedKStream[K, A]:
        """Begins a cogroup: this is the first of several streams that are aggregated together. Mirrors ``cogroup``.

        ``aggregator(key, value, aggregate)`` takes the records of this stream. Others are added by
        :meth:`CogroupedKStream.cogroup`. Type checkers do not infer the type of an aggregate from a lambda; annotate a
        variable: ``totals: CogroupedKStream[str, int] = orders.cogroup(lambda …)``.
        """
        together: CogroupedKStream[K, A] = CogroupedKStream()
        return together.cogroup(self, aggregator)

    @overload
    def windowed_by(self, windows: TimeWindows | UnlimitedWindows) -> TimeWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SlidingWindows) -> TimeWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    def windowed_by(
        self, windows: TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Returns these records, to be aggregated per window of time or per session. Mirrors ``windowedBy``.

        >>> import penstock as ps
        >>> clicks = ps.StreamsBuilder().stream("clicks").group_by_key()
        >>> per_minute = clicks.windowed_by(ps.TimeWindows.of_size_with_no_grace(60_000)).count()
        """
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self._aggregates, windows)
        checked_windows(windows)
        return TimeWindowedKStream(self._aggregates, windows)

    def _aggregated(
        self,
        call: str,
        operator: TableOperator,
        prefix: str,
        value_serde: Serde[Any] | None,
        materialized: Materialized[Any, Any] | None,
        named: NameLike | None,
    ) -> KTable[K, Any]:
        checked_option(materialized, Materialized, call)
        how, key_serde = materialized or Materialized(), self._aggregates.grouped.key_serde
        return self._aggregates.table(
            call,
            operator,
            prefix,
            how,
            named,
            lambda name: how.builder(TimestampedKeyValueStoreBuilder, name, key_serde, value_serde),
        )
