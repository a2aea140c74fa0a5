"""``CogroupedKStream``: grouped streams that are aggregated together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from penstock.common.errors import TopologyError
from penstock.common.shown import shown_with_type
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.topology.arity import checked_function
from penstock.topology.dsl.cogroup import AGGREGATE, Cogroup
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import NameLike, checked_option
from penstock.topology.dsl.windowed_cogrouped_kstream import (
    SessionWindowedCogroupedKStream,
    TimeWindowedCogroupedKStream,
)
from penstock.topology.logical.graph import require_same_graph
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.session_windows import SessionWindows
from penstock.topology.options.windows import SlidingWindows, TimeWindows, UnlimitedWindows, checked_windows
from penstock.topology.physical.operators.cogroup import CogroupAggregate

if TYPE_CHECKING:
    from penstock.topology.dsl.kgrouped_stream import KGroupedStream

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class CogroupedKStream(Generic[K, A]):
    """Grouped streams that are aggregated together, each by an aggregator of its own. Mirrors ``CogroupedKStream``.

    Made by :meth:`KGroupedStream.cogroup`. One store holds one aggregate per key for all of the streams; if records
    wait in several of them, the one with the smallest timestamp goes first. Their topics must have equally many
    partitions; a stream whose key may have changed is repartitioned before.
    """

    def __init__(self) -> None:
        self._cogroup = Cogroup()

    def cogroup(
        self, grouped: KGroupedStream[K, V], aggregator: Callable[[K, V, A], A | None]
    ) -> CogroupedKStream[K, A]:
        """Add a stream, whose records are taken by ``aggregator(key, value, aggregate)``. Mirrors ``cogroup``.

        A result of None deletes the aggregate. A stream that is there already gets the new aggregator. Returns this
        object.
        """
        from penstock.topology.dsl.kgrouped_stream import KGroupedStream

        if not isinstance(grouped, KGroupedStream):
            raise TopologyError(
                f"cogroup needs a KGroupedStream, as group_by_key() and group_by(...) make it, not "
                f"{shown_with_type(grouped)}"
            )
        checked_function(aggregator, "cogroup: aggregator", "key", "value", "aggregate")
        aggregators = self._cogroup.aggregators
        for other in aggregators:
            require_same_graph(other._aggregates.head.graph, grouped._aggregates.head.graph, "cogroup")
        aggregators[grouped] = aggregator
        return self

    @overload
    def windowed_by(
        self, windows: TimeWindows | UnlimitedWindows | SlidingWindows
    ) -> TimeWindowedCogroupedKStream[K, A]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, A]: ...
    def windowed_by(
        self, windows: TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows
    ) -> TimeWindowedCogroupedKStream[K, A] | SessionWindowedCogroupedKStream[K, A]:
        """Returns these streams, to be aggregated per window of time or per session. Mirrors ``windowedBy``. Streams
        that are added later take part in aggregates that are made after that.
        """
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._cogroup, windows)
        checked_windows(windows)
        return TimeWindowedCogroupedKStream(self._cogroup, windows)

    def aggregate(
        self,
        initializer: Callable[[], A],
        materialized: Materialized[K, A] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, A]:
        """Returns a table with one aggregate per key of all the streams, beginning with ``initializer()``. Mirrors
        ``aggregate``.

        It has the largest timestamp of its records. A record with a null key or a null value is dropped and counted in
        ``dropped-records-total``. With caching on (the default), downstream sees the last update per key and commit.
        For what functions may do with an aggregate, see :meth:`KGroupedStream.aggregate`. The keys' serde is that of
        ``materialized``, else the one that all the streams have; the aggregates' that of ``materialized``, else the
        configuration's.

        ``named`` begins the names of all nodes: ``<name>-cogroup-agg-0`` and so on, ``<name>-cogroup-merge``.

        >>> import penstock as ps
        >>> builder = ps.StreamsBuilder()
        >>> clicks, orders = builder.stream("clicks").group_by_key(), builder.stream("orders").group_by_key()
        >>> together = clicks.cogroup(lambda user, click, seen: [*seen, "click"])
        >>> together = together.cogroup(orders, lambda user, order, seen: [*seen, "order"])
        >>> together.aggregate(list, ps.Materialized.as_("journeys")).queryable_store_name
        'journeys'
        """
        checked_function(initializer, "aggregate: initializer")
        checked_option(materialized, Materialized, "aggregate")
        how: Materialized[K, A] = materialized or Materialized()
        store_name = how.name or self._cogroup.graph.names.store(AGGREGATE)
        store = how.builder(TimestampedKeyValueStoreBuilder, store_name, self._cogroup.key_serde, None)
        head, table = self._cogroup.aggregated(store, named, lambda each: CogroupAggregate(initializer, each))
        return KTable(head, table, how.name)
