"""``KGroupedStream``: records grouped by key, to be aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.common.serdes import Serde, Serdes
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.topology.arity import checked_function
from penstock.topology.dsl.cogrouped_kstream import CogroupedKStream
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import NameLike, StreamHead, checked_option
from penstock.topology.logical.graph import Operation, Repartition, new_repartition
from penstock.topology.logical.tables import StoredTable
from penstock.topology.materialized import Materialized
from penstock.topology.options import Grouped
from penstock.topology.physical.operator import TableOperator
from penstock.topology.physical.operators import StreamAggregate, StreamCount, StreamReduce

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

_AGGREGATE = "KSTREAM-AGGREGATE-"
_REDUCE = "KSTREAM-REDUCE-"


class KGroupedStream(Generic[K, V]):
    """Records grouped by key. Mirrors ``KGroupedStream``; made by ``group_by`` and ``group_by_key``.

    Every aggregate keeps one value per key in a store with a changelog, is updated in the order of processing, and has
    the largest timestamp of its records. A record with a null key or a null value is dropped and counted in
    ``dropped-records-total``. With caching on (the default), downstream sees the last update per key and commit.
    """

    def __init__(self, head: StreamHead, grouped: Grouped[K, V]) -> None:
        self._head = head
        self._grouped = grouped
        self._repartition: Repartition | None = None

    def count(
        self, materialized: Materialized[K, int] | None = None, *, named: NameLike | None = None
    ) -> KTable[K, int]:
        """How many records each key has had; stored as a long by default. Mirrors ``count``.

        >>> from penstock.topology.dsl.streams_builder import StreamsBuilder
        >>> words = StreamsBuilder().stream("words")
        >>> words.group_by(lambda key, word: word).count(Materialized.as_("counts")).queryable_store_name
        'counts'
        """
        checked_option(materialized, Materialized, "count")
        if materialized is not None and materialized.name is None:
            # Kafka Streams uses up a number here, and the names of all that follow depend on it.
            self._head.graph.names.store(_AGGREGATE)
        return self._aggregated("count", StreamCount(), _AGGREGATE, Serdes.long(), materialized, named)

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, V]:
        """Values combined by ``reducer(aggregate, value)``, beginning with the first value. Mirrors ``reduce``.

        A result of None deletes the aggregate. The reducer returns a new object or one of the two as it is: neither may
        be changed, since the store holds the aggregate itself until the commit (docs/PROGRAMS.md).
        """
        checked_function(reducer, "reduce: reducer", "aggregate", "value")
        return self._aggregated(
            "reduce",
            StreamReduce(reducer),
            _REDUCE,
            self._grouped.value_serde,
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
        """Values combined by ``aggregator(key, value, aggregate)``, beginning with ``initializer()``.

        A result of None deletes the aggregate. The serde of the aggregates is that of ``materialized``, else the
        configuration's. The store holds the aggregate itself until the commit, so the aggregator must return a new
        object and not change the one it is given, and ``initializer`` must make a fresh (or an immutable) one at each
        call (docs/PROGRAMS.md). Mirrors ``aggregate``.

        >>> from penstock.topology.dsl.streams_builder import StreamsBuilder
        >>> orders = StreamsBuilder().stream("orders").group_by_key()
        >>> baskets = orders.aggregate(list, lambda user, item, basket: [*basket, item], Materialized.as_("baskets"))
        """
        checked_function(initializer, "aggregate: initializer")
        checked_function(aggregator, "aggregate: aggregator", "key", "value", "aggregate")
        return self._aggregated(
            "aggregate",
            StreamAggregate(initializer, aggregator),
            _AGGREGATE,
            None,
            materialized,
            named,
        )

    def cogroup(self, aggregator: Callable[[K, V, A], A | None]) -> CogroupedKStream[K, A]:
        """The first of several streams that are aggregated together. Mirrors ``cogroup``.

        ``aggregator(key, value, aggregate)`` takes the records of this one. Others are added by
        :meth:`CogroupedKStream.cogroup`. An aggregator written as a lambda does not tell a type checker what an
        aggregate is; a variable does: ``totals: CogroupedKStream[str, int] = orders.cogroup(lambda …)``.
        """
        together: CogroupedKStream[K, A] = CogroupedKStream()
        return together.cogroup(self, aggregator)

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
        how = materialized or Materialized()
        names = self._head.graph.names
        store = how.builder(
            TimestampedKeyValueStoreBuilder, how.name or names.store(prefix), self._grouped.key_serde, value_serde
        )
        name = self._head.name(named, prefix)
        head = self._partitioned_by_key(store.name)
        head.wanted_by(f"{call} {name}", "Grouped")
        table = StoredTable(operator, store)
        node = Operation(name, table.operator, table.stores)
        head.graph.add(node, head.node)
        behind = head.moved(node, key_serde=store.key_serde, value_serde=store.value_serde, repartition_required=False)
        return KTable(behind, table, how.name)

    def _partitioned_by_key(self, store_name: str) -> StreamHead:
        """This stream partitioned by its key: by a topic of the grouping's name once, else by one per aggregate."""
        if not self._head.repartition_required:
            return self._head
        head, how = self._head, self._grouped
        fresh = new_repartition(head.graph, how.name or store_name, how.key_serde, how.value_serde)
        if self._repartition is None or how.name is None:
            self._repartition = fresh
        head.graph.add(self._repartition, head.node)
        return head.behind(self._repartition)
