"""The physical topology: nodes, edges, stores and internal topics as one frozen value.

:meth:`StreamsBuilder.build` returns it, actors and executors are sent it, tasks are composed of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError, TopologyError
from penstock.common.extractors import TimestampExtractor
from penstock.common.offset_resets import OffsetReset
from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder, is_restorable
from penstock.topology.physical.operators.operator import Operator
from penstock.topology.processor_api.processor import StreamPartitioner, TopicNameExtractor

if TYPE_CHECKING:
    from penstock.topology.physical.description import TopologyDescription
from penstock.topology.processor_api.processor_wrapper import require_wrapper


@dataclass(frozen=True)
class WrittenBy:
    """The user's call that made a source or sink, and the option that has its serdes, empty if the call takes them
    itself: for messages."""

    call: str
    option: str

    @property
    def serdes_in_words(self) -> str:
        """The way in which serdes are given, in words."""
        return f"{self.option}.with_(...)" if self.option else "key_serde=... and value_serde=..."


@dataclass(frozen=True)
class SourceNode:
    """Reads ``topics``. A serde or extractor that is None is taken from the configuration.

    ``internal`` marks a repartition topic (its name here lacks the application's prefix); its timestamps are always
    the record's own, and it is read from the beginning. ``changes``: its values are updates of a table, of values whose
    serde is ``value_serde``; they arrive as (new value or None, old value or None).
    """

    name: str
    topics: tuple[str, ...]
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: OffsetReset | None = None
    """None is ``earliest``."""
    internal: bool = False
    written_by: WrittenBy | None = field(default=None, compare=False)
    changes: bool = False
    pattern: re.Pattern[str] | None = None
    """The pattern of the names of all topics that it reads; ``topics`` are those known by now
    (``pattern_sources.py``)."""


@dataclass(frozen=True)
class ProcessorNode:
    """One operator, fed by ``parents``."""

    name: str
    parents: tuple[str, ...]
    operator: Operator

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores it uses."""
        return self.operator.stores


@dataclass(frozen=True)
class SinkNode:
    """Writes what ``parents`` forward to ``topic``. ``internal`` and ``changes`` as for a source."""

    name: str
    parents: tuple[str, ...]
    topic: str | TopicNameExtractor
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    partitioner: StreamPartitioner | None = None
    internal: bool = False
    written_by: WrittenBy | None = field(default=None, compare=False)
    changes: bool = False


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True)
class RepartitionTopic:
    """An internal topic between two sub-topologies; ``name`` lacks the application's prefix.

    ``partitions`` is the user's number, or None to take that of the sources upstream.
    """

    name: str
    partitions: int | None = None


@dataclass(frozen=True)
class Subtopology:
    """Nodes that exchange records without a topic between them, in the order in which they were added."""

    id: int
    nodes: tuple[Node, ...]
    stores: tuple[AnyStoreBuilder, ...] = ()

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        """The source nodes."""
        return tuple(node for node in self.nodes if isinstance(node, SourceNode))


@dataclass(frozen=True)
class Topology:
    """A built program. ``copartition_groups`` are sets of source topics that must have equally many partitions.

    ``order`` names the nodes of all sub-topologies in the order in which they were added. ``global_subtopologies`` keep
    the global stores, each a source and a processor: every host has all of them, and there are no tasks of them. They
    are numbered together with the others.
    """

    subtopologies: tuple[Subtopology, ...] = ()
    repartition_topics: Mapping[str, RepartitionTopic] = field(default_factory=dict)
    copartition_groups: tuple[frozenset[str], ...] = ()
    order: tuple[str, ...] = ()
    global_subtopologies: tuple[Subtopology, ...] = ()
    copartitioned_sources: tuple[frozenset[str], ...] = ()
    """Like ``copartition_groups``, by the names of sources, for groups in which one of these has a pattern."""
    generated_names: frozenset[str] = field(default=frozenset(), compare=False)
    """The names of its stores and repartition topics that the user has not given."""

    def describe(self) -> TopologyDescription:
        """Returns the text of Kafka Streams' ``Topology.describe()``, to the letter, which also has its parts."""
        from penstock.topology.physical.description import describe

        return describe(self)

    def _repr_html_(self) -> str:
        """Returns its picture: notebooks show it for a topology at the end of a cell."""
        from penstock.topology.physical.pictures import html_of

        return html_of(self)

    @property
    def as_value(self) -> Topology:
        """A copy of what it has so far, to which nothing can be added."""
        return Topology(**{each.name: getattr(self, each.name) for each in fields(Topology)})

    @property
    def as_one(self) -> Subtopology:
        """All sub-topologies that have tasks as one, which a test driver runs. Its processors start in Kafka Streams'
        order."""
        nodes = {node.name: node for sub in self.subtopologies for node in sub.nodes}
        ordered = tuple(nodes[name] for name in self.order if name in nodes)
        stores = self.store_builders
        used = (store for node in ordered if isinstance(node, ProcessorNode) for store in node.stores)
        return Subtopology(0, ordered, tuple(stores[store] for store in dict.fromkeys(used)))

    @property
    def every_subtopology(self) -> tuple[Subtopology, ...]:
        """The sub-topologies with tasks and the global ones, by their numbers."""
        return tuple(sorted((*self.subtopologies, *self.global_subtopologies), key=lambda sub: sub.id))

    @property
    def store_builders(self) -> dict[str, AnyStoreBuilder]:
        """Every store by name, global ones too."""
        return {store.name: store for sub in self.every_subtopology for store in sub.stores}

    @property
    def global_topics(self) -> tuple[str, ...]:
        """The topics that global stores are kept from."""
        return tuple(topic for sub in self.global_subtopologies for source in sub.sources for topic in source.topics)


def checked_topology(given: object) -> None:
    """Raises TopologyError unless ``given`` is a Topology that reads something: ``build()`` of a builder is easily
    forgotten."""
    if not isinstance(given, Topology):
        raise TopologyError(f"a Topology is needed, not a {type(given).__name__}: give builder.build()")
    if not given.every_subtopology:
        raise TopologyError("the topology is empty: it must read at least one topic (add_source)")


def check_wrapped(topology: Topology, config: StreamsConfig) -> None:
    """Raises ConfigError if ``config`` has a wrapper of processors that is none, or that ``topology`` was built
    without."""
    if config.processor_wrapper is None:
        return
    require_wrapper(config.processor_wrapper)
    for node in (node for sub in topology.subtopologies for node in sub.nodes if isinstance(node, ProcessorNode)):
        if not node.operator.wrapped and not node.operator.keeps_source_store:
            raise ConfigError(
                f"configuration key 'processor.wrapper.class': {node.name} was written without a wrapper. Processors "
                "are wrapped when the topology is built: give the same configuration to StreamsBuilder.build(config) "
                "or Topology(config)"
            )


def internal_topic(application_id: str, name: str) -> str:
    """Returns the name in Kafka of internal topic ``name`` of an application."""
    return f"{application_id}-{name}"


def serde_topic(application_id: str, store: AnyStoreBuilder) -> str:
    """Returns the topic that the serdes of ``store`` are bound to: it can restore the store, or would with logging."""
    return store.source_topic or internal_topic(application_id, f"{store.name}-changelog")


def changelog_topic(application_id: str, store: AnyStoreBuilder) -> str | None:
    """Returns the topic that can restore ``store``: its changelog, or its source topic, or None without logging."""
    return serde_topic(application_id, store) if is_restorable(store) else None
