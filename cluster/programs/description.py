"""A program as ``penstock describe --json`` describes it: made from the program, or read from a file that was kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.state.builders import AnyStoreBuilder
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topology import (
    Node,
    ProcessorNode,
    SourceNode,
    Topology,
    changelog_topic,
    internal_topic,
)


class DescribedNode(msgspec.Struct, frozen=True):
    """A node, as far as it matters here: what a source reads, and what a sink writes."""

    type: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    topic: str | None = None


class DescribedStore(msgspec.Struct, frozen=True):
    """A store; ``changelog`` is the topic that restores it."""

    name: str
    kind: str
    layout: str
    persistent: bool
    changelog: str | None
    key_serde: str | None
    value_serde: str | None


class DescribedSubtopology(msgspec.Struct, frozen=True):
    """A sub-topology; a global one has no tasks."""

    id: int
    nodes: tuple[DescribedNode, ...]
    stores: tuple[DescribedStore, ...]
    is_global: bool = msgspec.field(name="global")

    @property
    def reads(self) -> frozenset[str]:
        """The source topics that it reads; for a pattern, the pattern."""
        named = {topic for node in self.nodes if node.type == "source" for topic in node.topics}
        return frozenset(named | {f"/{node.pattern}/" for node in self.nodes if node.pattern is not None})

    @property
    def writes(self) -> frozenset[str]:
        """The topics that its sinks write, except those that a function names."""
        return frozenset(node.topic for node in self.nodes if node.type == "sink" and node.topic is not None)


class Description(msgspec.Struct, frozen=True):
    """A program, as ``penstock describe --json`` has it."""

    application_id: str
    subtopologies: tuple[DescribedSubtopology, ...]
    repartition_topics: tuple[str, ...]
    generated_names: frozenset[str]

    @property
    def repartition(self) -> frozenset[str]:
        """The repartition topics, by their names in Kafka."""
        return frozenset(internal_topic(self.application_id, name) for name in self.repartition_topics)

    @property
    def changelogs(self) -> frozenset[str]:
        """The changelog topics that the application made."""
        sources = self.reads
        stores = (store for sub in self.subtopologies for store in sub.stores)
        return frozenset(each.changelog for each in stores if each.changelog is not None) - sources

    @property
    def reads(self) -> frozenset[str]:
        """The user's topics that the program reads."""
        return frozenset().union(*(sub.reads for sub in self.subtopologies)) - set(self.repartition_topics)

    @property
    def writes(self) -> frozenset[str]:
        """The user's topics that the program writes."""
        return frozenset().union(*(sub.writes for sub in self.subtopologies)) - set(self.repartition_topics)

    @property
    def stores(self) -> dict[str, tuple[DescribedSubtopology, DescribedStore]]:
        """Every store, by name, with its sub-topology."""
        return {store.name: (sub, store) for sub in self.subtopologies for store in sub.stores}


def description_of(topology: Topology, config: StreamsConfig) -> Description:
    """Returns the description of a program."""
    return msgspec.convert(topology_body(topology, config), Description)


def read_description(path: Path) -> Description:
    """Returns the description that ``penstock describe --json`` wrote to a file. Raises ConfigError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Description)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{path} is not what this version's 'penstock describe MODULE:APP --json' prints: {error}"
        ) from error


def topology_body(topology: Topology, config: StreamsConfig) -> dict[str, Any]:
    """Sub-topologies with their nodes and stores. Names of repartition topics lack the application's prefix, as in
    the text; the names of changelogs are those in Kafka."""
    return {
        "application_id": config.application_id,
        "subtopologies": [
            {
                "id": sub.id,
                "global": sub in topology.global_subtopologies,
                "nodes": [_node(node) for node in sub.nodes],
                "stores": [
                    _store(config.application_id, store) for store in TaskProgram.of([sub], config).stores.values()
                ],
            }
            for sub in topology.every_subtopology
        ],
        "repartition_topics": list(topology.repartition_topics),
        "generated_names": sorted(topology.generated_names),
    }


def _node(node: Node) -> dict[str, Any]:
    if isinstance(node, SourceNode):
        pattern = {} if node.pattern is None else {"pattern": node.pattern.pattern}
        return {"type": "source", "name": node.name, "topics": list(node.topics), **pattern}
    if isinstance(node, ProcessorNode):
        return {"type": "processor", "name": node.name, "parents": list(node.parents), "stores": list(node.stores)}
    topic = node.topic if isinstance(node.topic, str) else None  # a function names it for each record
    return {"type": "sink", "name": node.name, "parents": list(node.parents), "topic": topic}


def _store(application_id: str, store: AnyStoreBuilder) -> dict[str, Any]:
    serdes = {"key_serde": store.key_serde, "value_serde": store.value_serde}
    return {
        "name": store.name,
        "kind": store.kind,
        "layout": store.layout,
        "persistent": store.persistent,
        "changelog": changelog_topic(application_id, store),
        **{part: None if serde is None else serde.name for part, serde in serdes.items()},
    }
