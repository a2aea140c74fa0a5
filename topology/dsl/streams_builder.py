"""``StreamsBuilder``: the beginning of a program of the DSL, from which it builds a topology."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar, overload

from penstock.common.config import StreamsConfig
from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder, StoreBuilder
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.topology.dsl.global_ktable import GlobalKTable, add_global_store_of, global_table_of
from penstock.topology.dsl.kstream import KStream
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import StreamHead, checked_option, checked_store_builder
from penstock.topology.dsl.topology import Topology
from penstock.topology.logical.graph import LogicalGraph, StateStoreNode, StreamSourceNode, TableSourceNode
from penstock.topology.logical.optimizer import optimize
from penstock.topology.logical.tables import StoredTable
from penstock.topology.naming import checked_name, checked_topics
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import KT, VT, Consumed
from penstock.topology.physical.explicit_names import check_explicit_names
from penstock.topology.physical.operators.table import TableSource
from penstock.topology.physical.writer import TopologyWriter
from penstock.topology.processor_api.processor import ProcessorSupplier, checked_supplier
from penstock.topology.processor_api.processor_wrapper import wrapper_of

K = TypeVar("K")
V = TypeVar("V")


class StreamsBuilder:
    """Builds the topology of a program. Mirrors ``StreamsBuilder``.

    >>> import penstock as ps
    >>> builder = ps.StreamsBuilder()
    >>> lines = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
    >>> lines.map_values(str.upper).to("shouted")
    >>> len(builder.build().subtopologies)
    1
    """

    def __init__(self) -> None:
        self._graph = LogicalGraph()

    @overload
    def stream(self, topics: str | Collection[str] | re.Pattern[str], consumed: Consumed[K, V]) -> KStream[K, V]: ...
    @overload
    def stream(self, topics: str | Collection[str] | re.Pattern[str], consumed: None = None) -> KStream[Any, Any]: ...
    def stream(
        self, topics: str | Collection[str] | re.Pattern[str], consumed: Consumed[Any, Any] | None = None
    ) -> KStream[Any, Any]:
        """Reads the records of one topic or of several, in the order of each partition. Mirrors ``stream``.

        Two streams of the same set of topics read it once; sets that overlap without being equal are an error at
        :meth:`build`. The topics must exist when the application starts.

        A pattern, ``stream(re.compile("orders-.*"))``, means all topics whose whole names match, except Kafka's own
        topics and the application's internal ones. At least one must exist when the application starts; others are
        read from some 30 s after they were created, from their first record unless ``offset_reset`` says otherwise.
        Joined with something else, each of them must have as many partitions as that.
        """
        checked_option(consumed, Consumed, "stream")
        how = consumed or Consumed()
        pattern = topics if isinstance(topics, re.Pattern) else None
        if pattern is not None and not isinstance(pattern.pattern, str):
            raise TopologyError(f"stream: the pattern of topics must be one of text, not {pattern!r}")
        names = () if isinstance(topics, re.Pattern) else checked_topics(topics)
        name = self._graph.names.processor_or(how.name, "KSTREAM-SOURCE-")
        node = StreamSourceNode(name, names, how, pattern)
        self._graph.add(node, self._graph.root)
        return KStream(StreamHead(self._graph, node, how.key_serde, how.value_serde, frozenset((name,))))

    @overload
    def table(
        self, topic: str, consumed: Consumed[K, V], materialized: Materialized[K, V] | None = None
    ) -> KTable[K, V]: ...
    @overload
    def table(self, topic: str, consumed: None = None, *, materialized: Materialized[KT, VT]) -> KTable[KT, VT]: ...
    @overload
    def table(self, topic: str, consumed: None = None, materialized: None = None) -> KTable[Any, Any]: ...
    def table(
        self,
        topic: str,
        consumed: Consumed[Any, Any] | None = None,
        materialized: Materialized[Any, Any] | None = None,
    ) -> KTable[Any, Any]:
        """Reads ``topic`` as a table: the latest value per key. Mirrors ``table``. A record with a null key is dropped
        and counted in ``dropped-records-total``, a null value deletes. The table is kept in a store only if
        ``materialized`` names one, or if an operator looks up its rows. A serde that is given in one of ``consumed``
        and ``materialized`` is used for both; if both give one, that of ``consumed`` is used.
        """
        checked_option(consumed, Consumed, "table")
        checked_option(materialized, Materialized, "table")
        checked = checked_name(topic, "topic")
        read, kept = consumed or Consumed(), materialized or Materialized()
        key_serde = read.key_serde or kept.key_serde
        value_serde = read.value_serde or kept.value_serde
        how = Consumed(key_serde, value_serde, read.timestamp_extractor, read.offset_reset, read.name)
        names = self._graph.names
        store_name = kept.name or names.store(f"{checked}-")
        store: AnyStoreBuilder = replace(kept, key_serde=key_serde, value_serde=value_serde).builder(
            TimestampedKeyValueStoreBuilder, store_name, None, None
        )
        source_name = names.processor_or(read.name, "KSTREAM-SOURCE-", suffix="-source")
        name = names.processor_or(read.name, "KTABLE-SOURCE-")
        definition = StoredTable(TableSource(), store, materialized=kept.name is not None or kept.ttl_ms is not None)
        node = TableSourceNode(name, source_name, checked, how, definition.operator, definition.stores)
        self._graph.add(node, self._graph.root)
        head = StreamHead(self._graph, node, key_serde, value_serde, frozenset((source_name,)))
        return KTable(head, definition, kept.name)

    def add_state_store(self, builder: StoreBuilder[Any, Any]) -> StreamsBuilder:
        """Add a store that processors may use by its name (:meth:`KStream.process`). Mirrors ``addStateStore``.

        A store that no processor uses is not built. Returns this builder.
        """
        checked_store_builder(builder, "add_state_store")
        self._graph.add(StateStoreNode(builder), self._graph.root)
        return self

    @overload
    def global_table(
        self, topic: str, consumed: Consumed[K, V], materialized: Materialized[K, V] | None = None
    ) -> GlobalKTable[K, V]: ...
    @overload
    def global_table(
        self, topic: str, consumed: None = None, *, materialized: Materialized[KT, VT]
    ) -> GlobalKTable[KT, VT]: ...
    @overload
    def global_table(self, topic: str, consumed: None = None, materialized: None = None) -> GlobalKTable[Any, Any]: ...
    def global_table(
        self,
        topic: str,
        consumed: Consumed[Any, Any] | None = None,
        materialized: Materialized[Any, Any] | None = None,
    ) -> GlobalKTable[Any, Any]:
        """Reads ``topic`` as a table, all of which is on every host. Mirrors ``globalTable``.

        Each stream actor reads all partitions from the first record to the end before its tasks begin, and continues to
        read while they run: a join finds the values that were read by then, whatever their timestamps. Updates are
        applied in the order in which they are read. A null key is dropped, and counted in ``dropped-records-total`` if
        it comes after the beginning; a null value deletes. There is always a store, which no changelog backs up except
        the topic; ``materialized`` may set its name and its type; its caching and logging have no effect. Of
        ``consumed`` only the serdes and the name are used, and neither the extractor nor ``offset_reset``. A serde that
        is given in one of the two is used for both; if both give one, that of ``consumed`` is used. No other source may
        read the topic.

        >>> import penstock as ps
        >>> builder = ps.StreamsBuilder()
        >>> texts = ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())
        >>> countries = builder.global_table("countries", texts)
        >>> users = builder.stream("users", texts)
        >>> users.join(countries, lambda user: user[-2:], lambda user, country: f"{user}: {country}").to("described")
        >>> [sub.id for sub in builder.build().global_subtopologies]
        [0]
        """
        checked_option(consumed, Consumed, "global_table")
        checked_option(materialized, Materialized, "global_table")
        checked_name(topic, "topic")
        return global_table_of(self._graph, topic, consumed or Consumed(), materialized or Materialized())

    def add_global_store(
        self,
        builder: StoreBuilder[Any, Any],
        topic: str,
        consumed: Consumed[K, V],
        supplier: ProcessorSupplier[K, V, Any, Any],
    ) -> StreamsBuilder:
        """Add a store that a processor of yours keeps from ``topic``, all of it on every host. Mirrors
        ``addGlobalStore``.

        ``supplier()`` makes the one :class:`Processor` of each stream actor. The processor gets every record of the
        topic, with null keys and values too, and may put any values into the store, which it gets by its name. It may
        not forward, nor schedule punctuations: a global store has no stream time. Every other processor may read the
        store by ``context.get_state_store``, without naming it to :meth:`KStream.process`; writing to it is an error.
        Each actor processes the topic from its first record, or from the position of its copy on disk, to the end
        before its tasks begin. There is no changelog, whatever the store's builder says. Of ``consumed`` only the
        serdes and the name are used, as for :meth:`global_table`. Returns this builder.
        """
        checked_store_builder(builder, "add_global_store")
        checked_option(consumed, Consumed, "add_global_store")
        checked_supplier(supplier, "add_global_store")
        checked_name(topic, "topic")
        add_global_store_of(self._graph, builder, topic, consumed, supplier)
        return self

    def build(self, config: Mapping[str, Any] | StreamsConfig | None = None) -> Topology:
        """Returns the topology of all calls so far. Mirrors ``build``.

        Optimised only when ``config`` is given and holds ``topology.optimization`` (``all``, or some of
        ``reuse.ktable.source.topics``, ``merge.repartition.topics`` and ``single.store.self.join``), and wrapped when
        it has a ``processor.wrapper.class`` (:class:`ProcessorWrapper`). It may be called again, after further calls.
        Nodes may be added by hand to what it returns. Raises TopologyError for a program that cannot run, and, if
        ``config`` has ``ensure.explicit.internal.resource.naming``, for one that leaves a store or an internal topic
        without a name; ConfigError for a key that is not known, and for a value that it does not take.
        """
        graph, checked = self._graph.copy(), _checked(config)
        optimize(graph, checked.topology_optimization)
        writer = TopologyWriter(wrapper_of(config))
        graph.write(writer)
        if writer.is_empty:
            raise TopologyError(
                "the topology is empty: it must read at least one topic (StreamsBuilder.stream or table)"
            )
        topology = Topology._of(writer, graph.copartitioned, graph.names.is_generated)
        if checked.ensure_explicit_internal_resource_naming:
            check_explicit_names(topology)
        return topology


def _checked(config: Mapping[str, Any] | StreamsConfig | None) -> StreamsConfig:
    if isinstance(config, StreamsConfig):
        return config
    # A topology has no application yet, and its configuration may be given in part.
    return StreamsConfig.of({"application.id": "not-known-yet", **(config or {})})
