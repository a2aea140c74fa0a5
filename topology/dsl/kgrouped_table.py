"""``KGroupedTable``: a table grouped by another key than its own, to be aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.common.serdes import Serde, Serdes
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.topology.arity import checked_function
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import NameLike, StreamHead, checked_option, given_name
from penstock.topology.logical.graph import Operation
from penstock.topology.logical.table_repartition import TableRepartition
from penstock.topology.logical.tables import StoredTable
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Grouped
from penstock.topology.physical.operators.operator import TableOperator
from penstock.topology.physical.operators.table_aggregate import TableAggregate, TableCount, TableReduce
from penstock.topology.physical.topology import WrittenBy

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

_AGGREGATE = "KTABLE-AGGREGATE-"
_REDUCE = "KTABLE-REDUCE-"


class KGroupedTable(Generic[K, V]):
    """The entries of a table by group. Mirrors ``KGroupedTable``; made by :meth:`KTable.group_by`.

    For an update of the table, the subtractor subtracts the old value from the aggregate of its group, and the adder
    adds the new value to the aggregate of its own group. If both are in the same group, this happens at once. Otherwise
    it takes two records, the old value's first, so an entry that changes its group is in neither for a moment. Every
    aggregate is kept in a store with a changelog and has the largest timestamp (ms) of its records. With caching on
    (the default), downstream sees the last update per group and commit.
    """

    def __init__(self, head: StreamHead, grouped: Grouped[K, V]) -> None:
        self._head = head
        self._grouped = grouped
        self._repartition: TableRepartition | None = None

    def count(
        self, materialized: Materialized[K, int] | None = None, *, named: NameLike | None = None
    ) -> KTable[K, int]:
        """Counts the entries of each group; stored as a long by default. Mirrors ``count``.

        A group that has lost all of its entries remains, with the count 0.

        >>> import penstock as ps
        >>> users = ps.StreamsBuilder().table("users")
        >>> by_city = users.group_by(lambda user, city: (city, user))
        >>> by_city.count(ps.Materialized.as_("users-per-city")).queryable_store_name
        'users-per-city'
        """
        return self._aggregated("count", TableCount(), _AGGREGATE, Serdes.long(), materialized, named)

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, V]:
        """Adds values by ``adder(aggregate, value)``, and subtracts them by ``subtractor(aggregate, value)``.

        The first value of a group is its aggregate. A result of None deletes the aggregate; then nothing is subtracted
        until the next value begins a new aggregate. Both return a new object or one of the two as it is: neither may be
        changed, since stores hold them (docs/PROGRAMS.md). Mirrors ``reduce``.

        >>> import penstock as ps
        >>> orders = ps.StreamsBuilder().table("orders")
        >>> by_user = orders.group_by(lambda id, order: (order["user"], order["cents"]))
        >>> spent = by_user.reduce(lambda sum, cents: sum + cents, lambda sum, cents: sum - cents)
        """
        checked_function(adder, "reduce: adder", "aggregate", "value")
        checked_function(subtractor, "reduce: subtractor", "aggregate", "value")
        operator = TableReduce(adder, subtractor)
        return self._aggregated("reduce", operator, _REDUCE, self._grouped.value_serde, materialized, named)

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A | None],
        subtractor: Callable[[K, V, A], A | None],
        materialized: Materialized[K, A] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, A]:
        """Adds values by ``adder(key, value, aggregate)``, and subtracts them by ``subtractor(key, value, aggregate)``.

        ``key`` is that of the group. The adder begins with ``initializer()`` if there is no aggregate; the subtractor
        is only called if there is one. A result of None deletes the aggregate. The serde of the aggregates is that of
        ``materialized``, else the configuration's. The store holds the aggregate itself until the commit, so both must
        return a new object and not change the one they are given, and ``initializer`` must return a new (or an
        immutable) object at each call (docs/PROGRAMS.md). Mirrors ``aggregate``.

        >>> import penstock as ps
        >>> users = ps.StreamsBuilder().table("users").group_by(lambda user, city: (city, user))
        >>> inhabitants = users.aggregate(
        ...     list,
        ...     lambda city, user, all: [*all, user],
        ...     lambda city, user, all: [each for each in all if each != user],
        ... )
        """
        checked_function(initializer, "aggregate: initializer")
        checked_function(adder, "aggregate: adder", "key", "value", "aggregate")
        checked_function(subtractor, "aggregate: subtractor", "key", "value", "aggregate")
        operator = TableAggregate(initializer, adder, subtractor)
        return self._aggregated("aggregate", operator, _AGGREGATE, None, materialized, named)

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
        how, graph, given = materialized or Materialized(), self._head.graph, given_name(named)
        how.refuse_ttl(
            f"{call} of a grouped table",
            "what has expired would still be subtracted later. Give the TTL to the table that is grouped, whose "
            "deletions are subtracted",
        )
        store = how.builder(
            TimestampedKeyValueStoreBuilder,
            # The store of a reduced table is named like an aggregate's, too.
            how.name or graph.names.store(_AGGREGATE),
            self._grouped.key_serde,
            value_serde,
        )
        sink = graph.names.processor_or(given, "KSTREAM-SINK-", "-sink")
        source = graph.names.processor_or(given, "KSTREAM-SOURCE-", "-source")
        name = graph.names.processor_or(given, prefix)
        repartition = self._repartitioned(sink, source, store.name, WrittenBy(f"{call} {name}", "Grouped"))
        graph.add(repartition, self._head.node)
        table = StoredTable(operator, store)
        node = Operation(name, table.operator, table.stores)
        graph.add(node, repartition)
        sources = frozenset((repartition.name,))
        return KTable(StreamHead(graph, node, store.key_serde, store.value_serde, sources), table, how.name)

    def _repartitioned(self, sink: str, source: str, store_name: str, written_by: WrittenBy) -> TableRepartition:
        """Returns the one topic for all aggregates, if the grouping has a name, else one for each."""
        how = self._grouped
        if self._repartition is None or how.name is None:
            self._repartition = TableRepartition(
                sink, source, how.name or store_name, how.key_serde, how.value_serde, written_by
            )
        return self._repartition
