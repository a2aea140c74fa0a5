"""``KTable``: the latest value of each key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.topology.arity import checked_function, takes_key
from penstock.topology.dsl.ktable_joins import TableJoins
from penstock.topology.dsl.stream_base import NameLike, StreamHead, checked_option
from penstock.topology.dsl.suppress import suppressed_table
from penstock.topology.logical.graph import Operation, new_repartition
from penstock.topology.logical.processors import ConnectedStoreNode
from penstock.topology.logical.tables import StoredTable, TableDefinition, filtered, mapped, transformed
from penstock.topology.naming import checked_name
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Grouped
from penstock.topology.options.suppressed import Suppressed
from penstock.topology.physical.operators.table import TableSource, TableToStream
from penstock.topology.physical.operators.table_aggregate import TableGroupBy
from penstock.topology.processor_api.connected_stores import stores_of
from penstock.topology.processor_api.value_transformer import (
    ValueTransformerWithKeySupplier,
    checked_transformer_supplier,
)

if TYPE_CHECKING:
    from penstock.topology.dsl.kgrouped_table import KGroupedTable
    from penstock.topology.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")


class KTable(TableJoins[K, V]):
    """The latest value of each key. Mirrors ``KTable``; made by ``StreamsBuilder.table``, ``to_table`` and aggregates.

    Updates are applied in the order of processing, whatever their timestamps. A null value deletes. Functions see the
    objects that the table's store holds: they must not change them (docs/PROGRAMS.md).
    """

    def __init__(self, head: StreamHead, table: TableDefinition, queryable_store_name: str | None) -> None:
        self._head = head
        self._table = table
        self._queryable_store_name = queryable_store_name

    @property
    def queryable_store_name(self) -> str | None:
        """The name by which the table's store can be queried: the one the user gave, else None."""
        return self._queryable_store_name

    @overload
    def to_stream(self, key_mapper: None = None, *, named: NameLike | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, key_mapper: Callable[[V], KR], *, named: NameLike | None = None) -> KStream[KR, V]: ...
    @overload
    def to_stream(self, key_mapper: Callable[[K, V], KR], *, named: NameLike | None = None) -> KStream[KR, V]: ...
    def to_stream(
        self, key_mapper: Callable[..., Any] | None = None, *, named: NameLike | None = None
    ) -> KStream[Any, V]:
        """Returns the updates as records; a deletion is a record with a null value. Mirrors ``toStream``.

        With ``key_mapper(value)`` or ``key_mapper(key, value)`` the record gets that key, as by ``select_key``. Old
        values are left out.
        """
        from penstock.topology.dsl.kstream import KStream

        if key_mapper is not None:
            takes_key(key_mapper, "to_stream: key_mapper", "value", key_if_any_number=True)
        name = self._head.name(named, "KTABLE-TOSTREAM-")
        head = self._head.then(name, TableToStream())
        head.node.of_versions = self._table.passes_for_versioned
        stream: KStream[Any, V] = KStream(head)
        return stream if key_mapper is None else stream.select_key(key_mapper)

    @overload
    def filter(
        self,
        predicate: Callable[[V], bool],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, V]: ...
    @overload
    def filter(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, V]: ...
    def filter(
        self,
        predicate: Callable[..., bool],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, V]:
        """Keeps the entries for which ``predicate(value)`` or ``predicate(key, value)`` is true, and deletes the
        others.

        Mirrors ``filter``. The predicate gets the key if it needs two arguments, or takes any number of them. It is not
        called for deletions, which reach the result. The result is kept in a store of its own only if ``materialized``
        names one.
        """
        return self._filtered(predicate, False, materialized, named)

    @overload
    def filter_not(
        self,
        predicate: Callable[[V], bool],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, V]: ...
    @overload
    def filter_not(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, V]: ...
    def filter_not(
        self,
        predicate: Callable[..., bool],
        materialized: Materialized[K, V] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, V]:
        """Like :meth:`filter`, but keeps the entries for which the predicate is false. Mirrors ``filterNot``."""
        return self._filtered(predicate, True, materialized, named)

    def _filtered(
        self,
        predicate: Callable[..., bool],
        negate: bool,
        materialized: Materialized[K, V] | None,
        named: NameLike | None,
    ) -> KTable[K, V]:
        call = "filter_not" if negate else "filter"
        with_key = takes_key(predicate, f"{call}: predicate", "value", key_if_any_number=True)
        checked_option(materialized, Materialized, call)
        store = self._store("KTABLE-FILTER-", materialized, self._head.value_serde)
        name = self._head.name(named, "KTABLE-FILTER-")
        table = filtered(self._table, store, predicate, negate, with_key)
        return self._derived(name, table, materialized, self._head.value_serde)

    @overload
    def map_values(
        self,
        mapper: Callable[[V], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, VR]: ...
    def map_values(
        self,
        mapper: Callable[..., VR],
        materialized: Materialized[K, VR] | None = None,
        *,
        named: NameLike | None = None,
    ) -> KTable[K, VR]:
        """Replaces each value by ``mapper(value)`` or ``mapper(key, value)``, depending on the arguments that
        ``mapper`` takes.

        The mapper is not called for deletions, which reach the result. The result is kept in a store of its own only if
        ``materialized`` names one; otherwise the mapper is called again for each look-up, so it must be a pure
        function. Mirrors ``mapValues``.
        """
        with_key = takes_key(mapper, "map_values: mapper", "value")
        checked_option(materialized, Materialized, "map_values")
        store = self._store("KTABLE-MAPVALUES-", materialized, None)
        name = self._head.name(named, "KTABLE-MAPVALUES-")
        return self._derived(name, mapped(self._table, store, mapper, with_key), materialized, None)

    def transform_values(
        self,
        supplier: ValueTransformerWithKeySupplier[K, V, VR],
        *store_names: str,
        materialized: Materialized[K, VR] | None = None,
        named: NameLike | None = None,
    ) -> KTable[K, VR]:
        """Replaces each value by the result of a user's :class:`ValueTransformerWithKey`.

        ``supplier()`` makes a new transformer at each call: one per task, and two at once here to check that. It may
        use the stores ``store_names``, added by :meth:`StreamsBuilder.add_state_store` or kept by a named table, and
        those that the supplier defines (:class:`ConnectedStoreProvider`). Unlike a mapper it is also called for
        deletions, with None. The result is kept in a store of its own only if ``materialized`` names one; otherwise
        another transformer is called for each look-up, which is an error for one with stores. Mirrors
        ``transformValues``.
        """
        checked_transformer_supplier(supplier)
        checked_option(materialized, Materialized, "transform_values")
        for store_name in store_names:
            checked_name(store_name, "transform_values: store name")
        store = self._store("KTABLE-TRANSFORMVALUES-", materialized, None)
        name = self._head.name(named, "KTABLE-TRANSFORMVALUES-")
        brought = stores_of(supplier, "transform_values")
        for builder in brought:
            self._head.graph.add(ConnectedStoreNode(builder), self._head.graph.root)
        used = dict.fromkeys((*store_names, *(builder.name for builder in brought)))
        table = transformed(self._table, store, supplier, tuple(used))
        return self._derived(name, table, materialized, None)

    def suppress(self, suppressed: Suppressed[K]) -> KTable[K, V]:
        """Holds back updates, the last of each key, until a time limit or until windows close. Mirrors ``suppress``.

        The result is a table with fewer and later updates. Only updates that come in move its time: without new ones,
        and without ``window.idle.advance.ms``, nothing is emitted. An emitted update has the timestamp and the headers
        of the last update of its key; several are emitted in the order of their times, and those of the same time in
        the order of their keys' bytes. A look-up in the result (by a join) finds the value from before the first update
        that waits. With a time limit a deletion is emitted like any update; when windows close, never.

        Updates that wait are in memory and in a changelog topic. Raises TopologyError for ``until_window_closes`` if
        the table has no windows that close. For limits of the buffer see :class:`BufferConfig`.

        >>> import penstock as ps
        >>> prices = ps.StreamsBuilder().table("prices", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.double()))
        >>> calm = prices.suppress(ps.Suppressed.until_time_limit(60_000, ps.BufferConfig.max_records(10_000)))
        """
        head, table = suppressed_table(self._head, self._table, suppressed)
        return KTable(head, table, None)

    def group_by(
        self,
        selector: Callable[[K, V], tuple[KR | None, VR | None] | None],
        grouped: Grouped[KR, VR] | None = None,
    ) -> KGroupedTable[KR, VR]:
        """Groups the entries, through a repartition topic: ``selector(key, value)`` returns (group key, value) of each.

        Mirrors ``groupBy``. An entry for which the selector returns None, or a tuple with a None, is in no group. The
        selector is called for the new and the old value of each update, so it must return equal results for equal
        values. This table is kept in a store from then on. ``grouped`` names the operator and the topic,
        ``<application.id>-<name>-repartition``, and gives the serdes of group keys and values: none are inherited,
        those that are missing are the configuration's.

        >>> import penstock as ps
        >>> cities = ps.StreamsBuilder().table("users").group_by(lambda user, city: (city, 1))
        """
        from penstock.topology.dsl.kgrouped_table import KGroupedTable

        checked_function(selector, "group_by: selector", "key", "value")
        checked_option(grouped, Grouped, "group_by")
        how = grouped or Grouped()
        name = self._head.name(how.name, "KTABLE-SELECT-")
        operator = TableGroupBy(selector, of_versions=self._table.history_retention_ms is not None)
        node = Operation(name, lambda: operator)
        self._head.graph.add(node, self._head.node)
        self._table.enable_sending_old_values(force=True)
        return KGroupedTable(self._head.moved(node), how)

    def _store(
        self, prefix: str, materialized: Materialized[Any, Any] | None, value_serde: Serde[Any] | None
    ) -> AnyStoreBuilder | None:
        if materialized is None:
            return None
        if materialized.name is None:
            materialized.refuse_ttl("a table without a store", "name one: Materialized.as_(name).with_ttl(...)")
            # No store without a name; Kafka Streams uses up a number all the same.
            self._head.graph.names.store(prefix)
            return None
        return materialized.builder(
            TimestampedKeyValueStoreBuilder, materialized.name, self._head.key_serde, value_serde
        )

    def _derived(
        self,
        name: str,
        table: TableDefinition,
        materialized: Materialized[Any, Any] | None,
        value_serde: Serde[Any] | None,
    ) -> KTable[Any, Any]:
        how = materialized or Materialized()
        node = Operation(name, table.operator, table.stores)
        self._head.graph.add(node, self._head.node)
        head = self._head.moved(
            node, key_serde=how.key_serde or self._head.key_serde, value_serde=how.value_serde or value_serde
        )
        return KTable(head, table, how.name)


def table_of(head: StreamHead, how: Materialized[Any, Any], named: NameLike | None) -> KTable[Any, Any]:
    """Adds the table of ``to_table``, whose changelog is the stream at ``head``, and returns it."""
    name = head.name(named, "KSTREAM-TOTABLE-")
    store_name = how.name or head.graph.names.store("KSTREAM-TOTABLE-")
    store = how.builder(TimestampedKeyValueStoreBuilder, store_name, head.key_serde, head.value_serde)
    if head.repartition_required:
        repartition = new_repartition(head.graph, name, store.key_serde, store.value_serde)
        head.graph.add(repartition, head.node)
        head = head.below(repartition)
        head.note_user_call(f"to_table {name}", "Materialized")
    kept = how.name is not None or how.ttl_ms is not None
    table = StoredTable(TableSource(), store, materialized=kept)
    node = Operation(name, table.operator, table.stores)
    head.graph.add(node, head.node)
    below = head.moved(node, key_serde=store.key_serde, value_serde=store.value_serde, repartition_required=False)
    return KTable(below, table, how.name)
