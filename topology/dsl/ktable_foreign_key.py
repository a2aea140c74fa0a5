"""Foreign-key joins of tables: the methods of ``KTable``, and the nodes that they add to the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serdes
from penstock.common.shown import shown_with_type
from penstock.state.key_value.store import SubscriptionStoreBuilder, TimestampedKeyValueStoreBuilder
from penstock.topology.arity import checked_function, takes_key
from penstock.topology.dsl.stream_base import StreamHead, checked_option
from penstock.topology.logical.graph import LogicalGraph, LogicalNode, Operation, require_same_graph
from penstock.topology.logical.internal_topics import InternalSink, InternalSource
from penstock.topology.logical.tables import StoredTable, TableDefinition
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.table_joined import TableJoined
from penstock.topology.physical.operators.foreign_key import (
    RESPONSE,
    ForeignKeySerdes,
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
    by_key,
    to_primary_partition,
)
from penstock.topology.physical.operators.operator import Operator
from penstock.topology.physical.operators.table import TableSource
from penstock.topology.physical.topology import WrittenBy

if TYPE_CHECKING:
    from penstock.topology.dsl.ktable import KTable

K = TypeVar("K")
V = TypeVar("V")

_REGISTRATION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
_SUBSCRIPTION = "KTABLE-FK-JOIN-SUBSCRIPTION-"
_PROCESSOR = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
_RESPONSE = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
_RESOLVER = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"
_OUTPUT = "KTABLE-FK-JOIN-OUTPUT-"
_SINK, _SOURCE, _TOPIC = "KTABLE-SINK-", "KTABLE-SOURCE-", "-topic"


def joins_by_foreign_key(functions: Sequence[object], options: Mapping[str, object]) -> bool:
    """Returns True if a call of ``join`` gives two functions, of which the first makes foreign keys of entries."""
    named = "foreign_key_extractor" in options or ("joiner" in options and len(functions) > 0)
    return named or (len(functions) > 1 and callable(functions[1]))


class ForeignKeyJoins(Generic[K, V]):
    """The part of ``KTable`` that joins by foreign key."""

    _head: StreamHead
    _table: TableDefinition

    def _join_by_foreign_key(
        self,
        other: KTable[Any, Any],
        foreign_key_extractor: Callable[..., Any],
        joiner: Callable[[Any, Any], Any],
        table_joined: TableJoined[Any, Any] | None = None,
        materialized: Materialized[Any, Any] | None = None,
        *,
        left: bool,
    ) -> KTable[Any, Any]:
        from penstock.topology.dsl.ktable import KTable

        call = "left_join" if left else "join"
        if isinstance(table_joined, Materialized) and materialized is None:
            table_joined, materialized = None, table_joined
        if not isinstance(other, KTable):
            raise TopologyError(f"{call} by foreign key needs another KTable, not {shown_with_type(other)}")
        with_key = takes_key(foreign_key_extractor, f"{call}: foreign_key_extractor", "value")
        checked_function(joiner, f"{call}: joiner", "value", "other_value")
        checked_option(table_joined, TableJoined, call)
        checked_option(materialized, Materialized, call)
        require_same_graph(self._head.graph, other._head.graph, call)
        join = _Join(
            call, (self._head, self._table), (other._head, other._table), table_joined or TableJoined(), left=left
        )
        return KTable(*join.add(foreign_key_extractor, with_key, joiner, materialized or Materialized()))


class _Names:
    """The names of one join, in the order in which Kafka Streams takes their numbers."""

    def __init__(self, graph: LogicalGraph, given: str | None) -> None:
        def name(prefix: str, suffix: str) -> str:
            return graph.names.processor_or(given, prefix, suffix)

        self.registration = name(_REGISTRATION, "-subscription-registration") + _TOPIC
        self.send = name(_REGISTRATION, "-subscription-registration-processor")
        self.registration_sink = name(_SINK, "-subscription-registration-sink")
        self.registration_source = name(_SOURCE, "-subscription-registration-source")
        self.store = name(f"{_SUBSCRIPTION}STATE-STORE-", "-subscription-store")
        self.receive = name(_PROCESSOR, "-subscription-receive")
        self.join = name(_PROCESSOR, "-subscription-join-foreign")
        self.foreign_join = name(_PROCESSOR, "-foreign-join-subscription")
        self.response = name(_RESPONSE, "-subscription-response") + _TOPIC
        self.response_sink = name(_SINK, "-subscription-response-sink")
        self.response_source = name(_SOURCE, "-subscription-response-source")
        self.resolver = name(_RESOLVER, "-subscription-response-resolver")
        self.result = name(_OUTPUT, "-result")


class _Join:
    """One join while it is added to the graph. ``this`` and ``other`` are the two tables."""

    def __init__(
        self,
        call: str,
        this: tuple[StreamHead, TableDefinition],
        other: tuple[StreamHead, TableDefinition],
        how: TableJoined[Any, Any],
        *,
        left: bool,
    ) -> None:
        self.head, self.table = this
        self.other_head, self.other_table = other
        self.graph, self.how, self.left = self.head.graph, how, left
        # Each side must send what an update replaces: if the foreign key has changed, the old one is unsubscribed from.
        self.other_table.enable_sending_old_values(force=True)
        self.table.enable_sending_old_values(force=True)
        self.names = _Names(self.graph, how.name)
        self.written_by = WrittenBy(f"{call} {self.names.send}", "Consumed")
        self.serdes = ForeignKeySerdes(
            self.names.registration,
            self.names.response,
            self.other_head.key_serde,
            self.head.key_serde,
            self.head.value_serde,
            self.other_head.value_serde,
        )

    def add(
        self,
        extractor: Callable[..., Any],
        with_key: bool,
        joiner: Callable[..., Any],
        materialized: Materialized[Any, Any],
    ) -> tuple[StreamHead, TableDefinition, str | None]:
        """Add the join; returns the head, the definition and the queryable store of its result."""
        send = SubscriptionSend(
            serdes=self.serdes,
            left=self.left,
            extractor=extractor,
            with_key=with_key,
            of_versions=self.table.history_retention_ms is not None,
        )
        registration = self._registration(self._operation(self.names.send, send, self.head.node))
        response = self._response(*self._answers(registration))
        sources = self.graph.copartition(self.head.sources, frozenset((response.name,)))
        resolve = ResponseJoin(serdes=self.serdes, left=self.left, table=self.table.getter(), joiner=joiner)
        resolver = self._operation(self.names.resolver, resolve, response)
        return self._result(resolver, materialized, sources)

    def _registration(self, send: LogicalNode) -> LogicalNode:
        """Add the topic by which subscriptions reach the tasks of the other table; returns its source."""
        names, foreign_key, partitioner = self.names, self.other_head.key_serde, self.how.other_partitioner
        topic = names.registration, foreign_key, Serdes.bytes()
        sink = InternalSink(names.registration_sink, *topic, partitioner and by_key(partitioner), self.written_by)
        self.graph.add(sink, send)
        source = InternalSource(names.registration_source, *topic, self.written_by)
        self.graph.add(source, sink)
        self.graph.copartition(self.other_head.sources, frozenset((source.name,)))
        return source

    def _answers(self, registration: LogicalNode) -> tuple[LogicalNode, LogicalNode]:
        """Add the nodes that make responses: of subscriptions, and of updates of the other table."""
        names, serdes, left, by_user = self.names, self.serdes, self.left, self.how.partitioner is not None
        store = SubscriptionStoreBuilder(names.store, Serdes.bytes(), Serdes.bytes())
        receive = self._operation(
            names.receive, SubscriptionReceive(serdes=serdes, left=left, store=store.name), registration, store
        )
        table = self.other_table.getter()
        join = SubscriptionJoin(serdes=serdes, left=left, table=table, decodes_key=by_user)
        joined = self._operation(names.join, join, receive)
        of_versions = self.other_table.history_retention_ms is not None
        foreign_join = ForeignTableJoin(
            serdes=serdes, left=left, store=store.name, decodes_key=by_user, of_versions=of_versions
        )
        return joined, self._operation(names.foreign_join, foreign_join, self.other_head.node, store)

    def _response(self, *answers: LogicalNode) -> LogicalNode:
        """Add the topic by which responses come back; returns its source."""
        names, key_serde, partitioner = self.names, self.head.key_serde, self.how.partitioner
        written = Serdes.bytes() if partitioner is None else key_serde
        chosen = to_primary_partition if partitioner is None else by_key(partitioner)
        sink = InternalSink(names.response_sink, names.response, written, RESPONSE, chosen, self.written_by)
        self.graph.add(sink, *answers)
        source = InternalSource(names.response_source, names.response, key_serde, Serdes.bytes(), self.written_by)
        self.graph.add(source, sink)
        return source

    def _result(
        self, resolver: LogicalNode, how: Materialized[Any, Any], sources: frozenset[str]
    ) -> tuple[StreamHead, TableDefinition, str | None]:
        key_serde = self.head.key_serde or how.key_serde
        store_name = how.name or self.graph.names.store(_OUTPUT)
        store = how.builder(TimestampedKeyValueStoreBuilder, store_name, key_serde, None)
        table = StoredTable(TableSource(), store, materialized=how.name is not None or how.ttl_ms is not None)
        node = Operation(self.names.result, table.operator, table.stores)
        self.graph.add(node, resolver)
        head = StreamHead(self.graph, node, key_serde, how.value_serde, sources)
        return head, table, how.name

    def _operation(
        self, name: str, operator: Operator, parent: LogicalNode, *stores: TimestampedKeyValueStoreBuilder[Any, Any]
    ) -> LogicalNode:
        node = Operation(name, lambda: operator, lambda: stores)
        self.graph.add(node, parent)
        return node
