"""``StreamsBuilder``: where a program begins, and what makes a topology of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar, overload

from penstock.common.config import StreamsConfig, optimizations
from penstock.common.errors import ConfigError, TopologyError
from penstock.state.builders import AnyStoreBuilder, StoreBuilder
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.topology.dsl.kstream import KStream
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import StreamHead, checked_option
from penstock.topology.logical.graph import LogicalGraph, StateStoreNode, StreamSourceNode, TableSourceNode
from penstock.topology.logical.optimizer import optimize
from penstock.topology.logical.tables import StoredTable
from penstock.topology.materialized import Materialized
from penstock.topology.naming import checked_topics
from penstock.topology.options import KT, VT, Consumed
from penstock.topology.physical.operators import TableSource
from penstock.topology.physical.topology import Topology
from penstock.topology.physical.writer import TopologyWriter

K = TypeVar("K")
V = TypeVar("V")

OPTIMIZATION_KEY = "topology.optimization"


class StreamsBuilder:
    """Where a program begins. Mirrors ``StreamsBuilder``.

    >>> from penstock.common.serdes import Serdes
    >>> builder = StreamsBuilder()
    >>> lines = builder.stream("lines", Consumed.with_(Serdes.string(), Serdes.string()))
    >>> lines.map_values(str.upper).to("shouted")
    >>> len(builder.build().subtopologies)
    1
    """

    def __init__(self) -> None:
        self._graph = LogicalGraph()

    @overload
    def stream(self, topics: str | Collection[str], consumed: Consumed[K, V]) -> KStream[K, V]: ...
    @overload
    def stream(self, topics: str | Collection[str], consumed: None = None) -> KStream[Any, Any]: ...
    def stream(self, topics: str | Collection[str], consumed: Consumed[Any, Any] | None = None) -> KStream[Any, Any]:
        """The records of one topic or of several, in the order of each partition. Mirrors ``stream``.

        Two streams of the same set of topics read it once; sets that overlap without being equal are an error at
        :meth:`build`. The topics must exist when the application starts.
        """
        checked_option(consumed, Consumed, "stream")
        how = consumed or Consumed()
        names = checked_topics(topics)
        name = self._graph.names.processor_or(how.name, "KSTREAM-SOURCE-")
        node = StreamSourceNode(name, names, how)
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
        """The latest value per key of ``topic``. Mirrors ``table``.

        A null key is dropped and counted in ``dropped-records-total``, a null value deletes. Kept in a store only when
        ``materialized`` names one, or when something looks into the table. A serde given in either of ``consumed`` and
        ``materialized`` counts for both; ``consumed`` goes first.
        """
        checked_option(consumed, Consumed, "table")
        checked_option(materialized, Materialized, "table")
        (checked,) = checked_topics(topic)
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
        definition = StoredTable(TableSource(), store, materialized=kept.name is not None)
        node = TableSourceNode(name, source_name, checked, how, definition.operator, definition.stores)
        self._graph.add(node, self._graph.root)
        head = StreamHead(self._graph, node, key_serde, value_serde, frozenset((source_name,)))
        return KTable(head, definition, kept.name)

    def add_state_store(self, builder: StoreBuilder[Any, Any]) -> StreamsBuilder:
        """Add a store that processors may use by its name (:meth:`KStream.process`). Mirrors ``addStateStore``.

        A store that no processor uses is not built. Returns this builder.
        """
        if not isinstance(builder, StoreBuilder):
            raise TopologyError(
                f"add_state_store needs a StoreBuilder, such as Stores.key_value_store_builder(...), not {builder!r}"
            )
        self._graph.add(StateStoreNode(builder), self._graph.root)
        return self

    def build(self, config: Mapping[str, Any] | StreamsConfig | None = None) -> Topology:
        """The topology of all calls so far. Mirrors ``build``.

        Optimised only when ``config`` is given and holds ``topology.optimization`` (``all``, or some of
        ``reuse.ktable.source.topics`` and ``merge.repartition.topics``). May be called again, with other calls between.
        Raises TopologyError for a program that cannot run.
        """
        graph = self._graph.copy()
        optimize(graph, _optimizations(config))
        writer = TopologyWriter()
        graph.write(writer)
        return writer.topology(graph.copartitioned)


def _optimizations(config: Mapping[str, Any] | StreamsConfig | None) -> frozenset[str]:
    if isinstance(config, StreamsConfig):
        return config.topology_optimization
    value = (config or {}).get(OPTIMIZATION_KEY, "none")
    try:
        return optimizations(value)
    except ValueError as error:
        raise ConfigError(f"configuration key {OPTIMIZATION_KEY!r}: {error} (got {value!r})") from None
