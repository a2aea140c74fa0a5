"""``Topology``: a program written node by node, or one of the DSL to which nodes are added."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Self, TypeVar

from penstock.common.config import StreamsConfig
from penstock.common.errors import TopologyError
from penstock.common.extractors import TimestampExtractor
from penstock.common.offset_resets import OffsetReset
from penstock.common.serdes import Serde
from penstock.state.builders import StoreBuilder
from penstock.topology.arity import checked_function
from penstock.topology.dsl.stream_base import checked_store_builder
from penstock.topology.naming import checked_name
from penstock.topology.options.options import Consumed, Produced
from penstock.topology.physical.operators.global_tables import GlobalProcess
from penstock.topology.physical.operators.process import AddedProcess, ReadOnlyStoreProcess
from penstock.topology.physical.topology import ProcessorNode, SinkNode, SourceNode, WrittenBy
from penstock.topology.physical.topology import Topology as TopologyValue
from penstock.topology.physical.writer import TopologyWriter
from penstock.topology.processor_api.connected_stores import stores_of
from penstock.topology.processor_api.processor import (
    ProcessorSupplier,
    StreamPartitioner,
    TopicNameExtractor,
    checked_supplier,
)
from penstock.topology.processor_api.processor_wrapper import wrapper_of

K = TypeVar("K")
V = TypeVar("V")


class Topology(TopologyValue):
    """Sources, processors, sinks and stores by their names. Mirrors ``Topology``.

    :meth:`StreamsBuilder.build` returns one as well, to which more can be added. Each method changes this object and
    returns it. A node is added after its parents, so no record can go in a circle. Nodes that share an edge or a store
    are one sub-topology; these are numbered in the order in which their first nodes were added. Give it to
    :class:`KafkaStreams`, :func:`run` or :class:`TopologyTestDriver` when it is complete.

    >>> import penstock as ps
    >>> class Shout(ps.Processor[str, str, str, str]):
    ...     def init(self, context: ps.ProcessorContext[str, str]) -> None:
    ...         self.context = context
    ...     def process(self, record: ps.Record[str, str]) -> None:
    ...         self.context.forward(record.with_value(record.value.upper()))
    >>> topology = ps.Topology()
    >>> _ = topology.add_source("Lines", "lines", key_serde=ps.Serdes.string(), value_serde=ps.Serdes.string())
    >>> _ = topology.add_processor("Shout", Shout, "Lines")
    >>> _ = topology.add_sink("Out", "shouted", "Shout", key_serde=ps.Serdes.string(), value_serde=ps.Serdes.string())
    >>> print(topology.describe())
    Topologies:
       Sub-topology: 0
        Source: Lines (topics: [lines])
          --> Shout
        Processor: Shout (stores: [])
          --> Out
          <-- Lines
        Sink: Out (topic: shouted)
          <-- Shout
    <BLANKLINE>
    <BLANKLINE>
    """

    _writer: TopologyWriter
    _copartitioned: tuple[frozenset[str], ...]
    _is_generated: Callable[[str], bool]

    def __init__(self, config: Mapping[str, Any] | StreamsConfig | None = None) -> None:
        """Makes an empty topology. Of ``config`` only ``processor.wrapper.class`` is used
        (:class:`ProcessorWrapper`)."""
        self._begin(TopologyWriter(wrapper_of(config)), (), lambda name: False)

    @classmethod
    def _of(
        cls, writer: TopologyWriter, copartitioned: Iterable[frozenset[str]], is_generated: Callable[[str], bool]
    ) -> Self:
        """Returns what ``writer`` has so far; ``copartitioned`` are sets of sources that must have equally many
        partitions, ``is_generated`` returns True for the name of a store or a topic that the user has not given."""
        topology = cls.__new__(cls)
        topology._begin(writer, tuple(copartitioned), is_generated)
        return topology

    def _begin(
        self, writer: TopologyWriter, copartitioned: tuple[frozenset[str], ...], is_generated: Callable[[str], bool]
    ) -> None:
        # The value's fields are frozen for all others.
        vars(self).update(_writer=writer, _copartitioned=copartitioned, _is_generated=is_generated)
        self._changed()

    def _changed(self) -> Self:
        vars(self).update(vars(self._writer.topology(self._copartitioned, self._is_generated)))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Other processes run it; nothing is added there.
        fields = (self.subtopologies, self.repartition_topics, self.copartition_groups, self.order)
        return TopologyValue, (*fields, self.global_subtopologies, self.copartitioned_sources, self.generated_names)

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: OffsetReset | None = None,
    ) -> Self:
        """Add a node that reads ``topics``, of which no other node may read any. Mirrors ``addSource``.

        A pattern, ``add_source("Orders", re.compile("orders-.*"))``, is given alone; it means what it does in
        :meth:`StreamsBuilder.stream`. A serde or an extractor that is None is the configuration's. ``offset_reset``:
        where reading begins without a committed offset; None is ``earliest``. Raises TopologyError.
        """
        how = Consumed(key_serde, value_serde, timestamp_extractor, offset_reset)
        self._writer.add_source(_source(name, topics, how, "add_source"))
        return self._changed()

    def add_processor(self, name: str, supplier: ProcessorSupplier[Any, Any, Any, Any], *parents: str) -> Self:
        """Add a processor of yours, which gets the records that ``parents`` forward. Mirrors ``addProcessor``.

        ``supplier()`` makes a new :class:`Processor` at each call: one per task, and two at once here to check that. It
        may define stores (:class:`ConnectedStoreProvider`); others are connected by :meth:`add_state_store` and
        :meth:`connect_processor_and_state_stores`. Raises TopologyError.
        """
        checked_supplier(supplier, "add_processor")
        stores = stores_of(supplier, "add_processor")
        self._writer.add_processor(ProcessorNode(_name(name), self._parents(name, parents), AddedProcess(supplier)))
        for store in stores:
            self._writer.add_connected_store(store)
        if stores:
            self._writer.connect(name, tuple(store.name for store in stores))
        return self._changed()

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *parents: str,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> Self:
        """Add a node that writes the records that ``parents`` forward. Mirrors ``addSink``.

        ``topic`` must exist, or is a function of (key, value, RecordContext) that names the topic of each record. A
        serde that is None is the configuration's; ``partitioner`` as in :class:`Produced`. Raises TopologyError.
        """
        if isinstance(topic, str):
            checked_name(topic, "topic")
        else:
            checked_function(topic, "add_sink: a topic that is no string", "key", "value", "context")
        how = Produced(key_serde, value_serde, partitioner)
        by = _written_by("add_sink", name)
        serdes = how.key_serde, how.value_serde
        self._writer.add_sink(
            SinkNode(_name(name), self._parents(name, parents), topic, *serdes, how.partitioner, written_by=by)
        )
        return self._changed()

    def add_state_store(self, builder: StoreBuilder[Any, Any], *processor_names: str) -> Self:
        """Add a store, which the processors of these names use. Mirrors ``addStateStore``.

        One that no processor uses is not built. Raises TopologyError for an unknown processor, and for another store
        of the same name.
        """
        checked_store_builder(builder, "add_state_store")
        self._writer.add_store(builder)
        for processor in processor_names:
            self._writer.connect(processor, (builder.name,))
        return self._changed()

    def connect_processor_and_state_stores(self, processor_name: str, *store_names: str) -> Self:
        """Let the processor use these stores: its own, those of other processors, or those of named tables. Mirrors
        ``connectProcessorAndStateStores``.

        Processors that share a store are in one sub-topology, and see each other's changes at once. Raises
        TopologyError for an unknown processor or store, for a global store, which every processor may read, and if no
        store is named.
        """
        if not store_names:
            raise TopologyError(f"connect_processor_and_state_stores({processor_name!r}): name at least one store")
        self._writer.connect(processor_name, store_names)
        return self._changed()

    def add_global_store(
        self,
        builder: StoreBuilder[Any, Any],
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: ProcessorSupplier[Any, Any, Any, Any],
        *,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
    ) -> Self:
        """Add a store that a processor of yours keeps from ``topic``, all of it on every host. Mirrors
        ``addGlobalStore``.

        Like :meth:`StreamsBuilder.add_global_store`: there is no changelog, all other processors may read the store
        without being connected, and no timestamp extractor is used. Raises TopologyError.
        """
        checked_store_builder(builder, "add_global_store")
        checked_supplier(supplier, "add_global_store")
        _different(source_name, processor_name)
        source = _source(source_name, (topic,), Consumed(key_serde, value_serde), "add_global_store")
        node = ProcessorNode(_name(processor_name), (source_name,), GlobalProcess(supplier, (builder.name,)))
        self._writer.add_global_store(source, node, builder.with_caching_disabled())
        return self._changed()

    def add_read_only_state_store(
        self,
        builder: StoreBuilder[Any, Any],
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: ProcessorSupplier[Any, Any, Any, Any],
        *,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Self:
        """Add a store that a processor of yours keeps from ``topic``, partitioned as the topic is. Mirrors
        ``addReadOnlyStateStore`` (KIP-813).

        The topic is the store's changelog, whatever the builder says of logging: a restore puts its records into the
        store **as they are**. So the processor must put each record's value under its key, unchanged, delete if the
        value is null, and forward nothing; give store and source the same serdes, and keep the topic compacted. Other
        processors that are connected (:meth:`connect_processor_and_state_stores`) may only read the store. Reading
        begins at the first record. Raises TopologyError.
        """
        checked_store_builder(builder, "add_read_only_state_store")
        checked_supplier(supplier, "add_read_only_state_store")
        _different(source_name, processor_name)
        how = Consumed(key_serde, value_serde, timestamp_extractor, "earliest")
        self._writer.add_source(_source(source_name, (topic,), how, "add_read_only_state_store"))
        self._writer.add_store(builder, source_topic=topic)
        operator = ReadOnlyStoreProcess(supplier, (builder.name,))
        self._writer.add_processor(ProcessorNode(_name(processor_name), (source_name,), operator))
        return self._changed()

    def _parents(self, name: str, parents: tuple[str, ...]) -> tuple[str, ...]:
        if not parents:
            raise TopologyError(f"{name!r} needs at least one parent: the name of a source or processor that feeds it")
        if len(set(parents)) < len(parents):
            raise TopologyError(f"{name!r} names a parent twice: {', '.join(parents)}")
        for parent in parents:
            if self._writer.forwards_updates(parent):
                raise TopologyError(
                    f"{parent!r} cannot be the parent of {name!r}: it forwards updates of a table, each with the "
                    "old value. Name the node that to_stream(named=...) adds"
                )
        return parents


def _source(
    name: str, topics: Collection[str | re.Pattern[str]], how: Consumed[Any, Any], call: str
) -> SourceNode:  # fmt: skip
    if not topics:
        raise TopologyError(f"source {name!r} needs at least one topic: {call}({name!r}, topic)")
    patterns = [topic for topic in topics if isinstance(topic, re.Pattern)]
    if patterns and len(topics) > 1:
        raise TopologyError(f"source {name!r} has a pattern and more: give {call} the pattern alone, or topics by name")
    read = tuple(checked_name(topic, "topic") for topic in topics if not isinstance(topic, re.Pattern))
    if len(set(read)) < len(read):
        raise TopologyError(f"source {name!r} names a topic twice: {', '.join(read)}")
    serdes = how.key_serde, how.value_serde
    by = _written_by(call, _name(name))
    return SourceNode(
        name,
        read,
        *serdes,
        how.timestamp_extractor,
        how.offset_reset,
        written_by=by,
        pattern=next(iter(patterns), None),
    )


def _written_by(call: str, name: str) -> WrittenBy:
    return WrittenBy(f"{call}({name!r})", "")


def _name(name: str) -> str:
    """Returns a node's name, checked: any text, as it goes into no topic's name."""
    if not isinstance(name, str) or not name.strip():
        raise TopologyError(f"a node's name must be a string that is not empty, not {name!r}")
    return name


def _different(source_name: str, processor_name: str) -> None:
    if source_name == processor_name:
        raise TopologyError(f"source and processor are both named {source_name!r}: give each a name of its own")
