"""Joins of a ``KTable`` with another one: by their primary keys, or, in part, by a foreign key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.topology.arity import checked_function
from penstock.topology.dsl.ktable_foreign_key import ForeignKeyJoins, joins_by_foreign_key
from penstock.topology.dsl.stream_base import NameLike, StreamHead, checked_option, given_name
from penstock.topology.logical.graph import require_same_graph
from penstock.topology.logical.table_joins import JoinedTable, JoinKind, TableJoinNode
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.table_joined import TableJoined

if TYPE_CHECKING:
    from penstock.topology.dsl.ktable import KTable

K = TypeVar("K")
V = TypeVar("V")
KO = TypeVar("KO")
VO = TypeVar("VO")
VR = TypeVar("VR")

_INNER = JoinKind("join", keeps_left=False, keeps_right=False)
_LEFT = JoinKind("left_join", keeps_left=True, keeps_right=False)
_OUTER = JoinKind("outer_join", keeps_left=True, keeps_right=True)

_MERGE = "KTABLE-MERGE-"


class TableJoins(ForeignKeyJoins[K, V]):
    """The joins of :class:`~penstock.topology.dsl.ktable.KTable`."""

    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        foreign_key_extractor: Callable[[V], KO | None],
        joiner: Callable[[V, VO], VR],
        table_joined: TableJoined[K, KO] | Materialized[K, VR] | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        foreign_key_extractor: Callable[[K, V], KO | None],
        joiner: Callable[[V, VO], VR],
        table_joined: TableJoined[K, KO] | Materialized[K, VR] | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]: ...
    def join(self, other: KTable[Any, Any], *functions: Any, **options: Any) -> KTable[K, Any]:
        """Joins each entry with the one of ``other`` that has the same key, or whose key it names. Mirrors ``join``.

        **By primary key**, ``join(other, joiner)``: ``joiner(value, other value)`` for each key that both tables have.
        Updates of either table cause results, in the order of processing. Each is joined with the value in the other
        table at that moment, and the result has the larger of the two timestamps (ms). A value that is deleted in one
        table deletes the result, if the other table has the key; so does a joiner that returns None. A null key is
        dropped and counted in ``dropped-records-total``. Both tables are kept in stores, and the topics they come from
        must have equally many partitions; the application does not start otherwise.

        The result is kept in a store of its own only if ``materialized`` is given, with or without a name; else it is
        computed again for each look-up, so the joiner must be a pure function. It must not change the values that it is
        given, because the stores hold the same objects. ``named`` names the three nodes: ``<name>-join-this``,
        ``<name>-join-other``, ``<name>``.

        >>> import penstock as ps
        >>> builder = ps.StreamsBuilder()
        >>> names, cities = builder.table("names"), builder.table("cities")
        >>> addresses = names.join(cities, lambda name, city: f"{name}, {city}", ps.Materialized.as_("addresses"))
        >>> addresses.queryable_store_name
        'addresses'

        **By foreign key**, ``join(other, foreign_key_extractor, joiner)``: ``foreign_key_extractor(value)``, or
        ``(key, value)``, returns the key of the other entry; many entries may name the same one. The result has this
        table's keys. It changes when either side does; a deletion on either side, and a foreign key without an entry,
        delete from it. An entry whose foreign key is None is not joined, and counted in ``dropped-records-total``.

        The tables need not be co-partitioned: entries travel as *subscriptions*, by way of an internal topic, to the
        task that has their foreign key; that one keeps them in a store, and responds by way of another topic, now and
        whenever its entry changes. So results come a moment later, and not one for each update: a response to a value
        that has changed meanwhile is dropped, and counted. Values are compared by a hash of their bytes. A result has
        the timestamp of the other side's update, if that caused it, else the larger of the two (ms).

        ``table_joined`` names the join, and has the partitioners of tables that Kafka's default did not partition. The
        result is kept in a store of its own if ``materialized`` names one, or if something looks into it.

        >>> titles = builder.table("books").join(names, lambda book: book["by"], lambda book, name: (book["is"], name))
        >>> sorted(builder.build().repartition_topics)[0]
        'KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000012-topic'

        Raises TopologyError for what is no table of the same builder, and for functions that cannot be called so.
        """
        if joins_by_foreign_key(functions, options):
            return self._join_by_foreign_key(other, *functions, left=False, **options)
        return self._join_by_key(_INNER, other, *functions, **options)

    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        foreign_key_extractor: Callable[[V], KO | None],
        joiner: Callable[[V, VO | None], VR],
        table_joined: TableJoined[K, KO] | Materialized[K, VR] | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        foreign_key_extractor: Callable[[K, V], KO | None],
        joiner: Callable[[V, VO | None], VR],
        table_joined: TableJoined[K, KO] | Materialized[K, VR] | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]: ...
    def left_join(self, other: KTable[Any, Any], *functions: Any, **options: Any) -> KTable[K, Any]:
        """Like :meth:`join`, but with a result for each entry of this table: without a match the joiner gets None as
        second value.

        Mirrors ``leftJoin``. A deletion in this table deletes the result, unless neither table had the key; a deletion
        in the other one joins the value with None. By foreign key, an entry whose foreign key is None has no match.
        """
        if joins_by_foreign_key(functions, options):
            return self._join_by_foreign_key(other, *functions, left=True, **options)
        return self._join_by_key(_LEFT, other, *functions, **options)

    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, VR]:
        """Like :meth:`join`, but with a result for each key of either table: the joiner gets None for the table that
        lacks the key.

        Mirrors ``outerJoin(KTable, …)``. The joiner is never called with two Nones: the result is deleted when both
        values are.
        """
        return self._join_by_key(_OUTER, other, joiner, materialized, named=named)

    def _join_by_key(
        self,
        kind: JoinKind,
        other: KTable[K, Any],
        joiner: Callable[[Any, Any], Any],
        materialized: Materialized[Any, Any] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, Any]:
        from penstock.topology.dsl.ktable import KTable

        call, head, names = kind.call, self._head, self._head.graph.names
        if not isinstance(other, KTable):
            raise TopologyError(f"{call} needs a KTable, not {other!r} ({type(other).__name__})")
        checked_function(joiner, f"{call}: joiner", "value", "other")
        checked_option(materialized, Materialized, call)
        require_same_graph(head.graph, other._head.graph, call)
        how, store = materialized or Materialized(), None
        if materialized is not None:
            store = _store(how, head)
        given = given_name(named)
        name = names.processor_or(given, _MERGE)
        sources = head.graph.copartition(head.sources, other._head.sources)
        table = JoinedTable(self._table, other._table, joiner, kind, store)
        this = names.processor_or(given, "KTABLE-JOINTHIS-", "-join-this")
        that = names.processor_or(given, "KTABLE-JOINOTHER-", "-join-other")
        node = TableJoinNode(name, ((this, head.node.name), (that, other._head.node.name)), table)
        head.graph.add(node, head.node, other._head.node)
        joined = head.moved(
            node, key_serde=how.key_serde or head.key_serde, value_serde=how.value_serde, sources=sources
        )
        return KTable(joined, table, how.name)


def _store(how: Materialized[Any, Any], head: StreamHead) -> AnyStoreBuilder:
    """Returns the store of a joined table for which a ``Materialized`` is given; only a given name can be queried."""
    return how.builder(
        TimestampedKeyValueStoreBuilder, how.name or head.graph.names.store(_MERGE), head.key_serde, None
    )
