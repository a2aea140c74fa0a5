"""Joins of a ``KTable`` with another one by their primary keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.topology.arity import checked_function
from penstock.topology.dsl.stream_base import NameLike, StreamHead, checked_option, given_name
from penstock.topology.logical.graph import require_same_graph
from penstock.topology.logical.table_joins import JoinedTable, JoinKind, TableJoinNode
from penstock.topology.logical.tables import TableDefinition
from penstock.topology.materialized import Materialized

if TYPE_CHECKING:
    from penstock.topology.dsl.ktable import KTable

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
VR = TypeVar("VR")

_INNER = JoinKind("join", keeps_left=False, keeps_right=False)
_LEFT = JoinKind("left_join", keeps_left=True, keeps_right=False)
_OUTER = JoinKind("outer_join", keeps_left=True, keeps_right=True)

_MERGE = "KTABLE-MERGE-"


class TableJoins(Generic[K, V]):
    """The joins of :class:`~penstock.topology.dsl.ktable.KTable` by primary key."""

    _head: StreamHead
    _table: TableDefinition

    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, VR]:
        """``joiner(value, other value)`` for each key that both tables have. Mirrors ``join(KTable, …)``.

        Updates of either table trigger, in the order of processing; each is joined with what the other table holds at
        that moment, and the result has the larger of the two timestamps (ms). A value that is deleted in one table
        deletes the result, if the other table has the key; so does a joiner that returns None. A null key is dropped
        and counted in ``dropped-records-total``. Both tables are kept in stores, and the topics they come from must
        have equally many partitions; the application does not start otherwise.

        The result is kept in a store of its own only if ``materialized`` is given, with or without a name; else it is
        joined again for each look-up, so the joiner must be a pure function. It must not change the values it is given:
        they are the stores' own. ``named`` names the three nodes: ``<name>-join-this``, ``<name>-join-other``,
        ``<name>``.

        Raises TopologyError for what is no table of the same builder, and for a joiner that cannot be called so.

        >>> from penstock.topology.dsl.streams_builder import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> names, cities = builder.table("names"), builder.table("cities")
        >>> addresses = names.join(cities, lambda name, city: f"{name}, {city}", Materialized.as_("addresses"))
        >>> addresses.queryable_store_name
        'addresses'
        """
        return self._joined(other, joiner, _INNER, materialized, named)

    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, VR]:
        """As :meth:`join`, but for each key of this table: without a match the joiner gets None as its second value.

        Mirrors ``leftJoin(KTable, …)``. A deletion in this table deletes the result, unless neither table had the key;
        a deletion in the other one joins the value with None.
        """
        return self._joined(other, joiner, _LEFT, materialized, named)

    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, VR]:
        """As :meth:`join`, but for each key of either table: the joiner gets None for the one that lacks it.

        Mirrors ``outerJoin(KTable, …)``. It is never called with two Nones: the result is deleted when the last of the
        two values is.
        """
        return self._joined(other, joiner, _OUTER, materialized, named)

    def _joined(
        self,
        other: KTable[K, Any],
        joiner: Callable[[Any, Any], Any],
        kind: JoinKind,
        materialized: Materialized[Any, Any] | None,
        named: NameLike | None,
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
    """A joined table has a store as soon as there is a word on it; only a given name can be queried."""
    return how.builder(
        TimestampedKeyValueStoreBuilder, how.name or head.graph.names.store(_MERGE), head.key_serde, None
    )
