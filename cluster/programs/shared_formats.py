"""Describes everything that two versions of a program share while one replaces the other: stores, and topics between
sub-topologies. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.common.config import StreamsConfig
from penstock.common.serdes import Serde, format_of
from penstock.state.builders import AnyStoreBuilder
from penstock.tasks.program import SourceTopic, TaskProgram
from penstock.topology.physical.topology import SinkNode, Topology, changelog_topic

Formats = dict[str, str]
"""The form of each store and topic, by a name for people: ``store counts``."""


def shared_formats(topology: Topology, config: StreamsConfig) -> Formats:
    """Returns the form in which each store keeps its rows, and each topic between two sub-topologies its records.

    Such a topic is a repartition topic, a topic of a foreign-key join, or one of the user's that the program both
    writes and reads. A serde counts by the format in its name: ``json(Order)`` and ``json`` are one. Raises
    StreamsError for a program that could not be started at all.
    """
    programs = {sub.id: TaskProgram.of([sub], config) for sub in topology.every_subtopology}
    of_all_actors = {sub.id for sub in topology.global_subtopologies}
    stores = {
        f"store {store.name}": _of_store(store, config.application_id, None if number in of_all_actors else number)
        for number, program in programs.items()
        for store in program.stores.values()
    }
    return stores | dict(_of_topics(list(programs.values())))


def differences(before: Formats, after: Formats) -> list[str]:
    """Returns a line for each store and topic that the two versions do not have in the same form."""
    return [
        f"{name}: {before.get(name, 'not there')} -> {after.get(name, 'not there')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _of_store(store: AnyStoreBuilder, application_id: str, number: int | None) -> str:
    rows = f"{store.kind}, keys {_format(store.key_serde)}, values {_format(store.value_serde)}"
    if number is None:  # each actor fills its own from the topic
        return rows
    place = "on disk" if store.persistent else "in memory"
    return f"{rows}; {store.layout} {place} of tasks {number}_*, changelog {changelog_topic(application_id, store)}"


def _of_topics(programs: list[TaskProgram]) -> Iterator[tuple[str, str]]:
    read = {name: source for program in programs for name, source in program.sources.items()}
    written: dict[str, set[str]] = {}
    for sink in (node for program in programs for node in program.nodes if isinstance(node, SinkNode)):
        if isinstance(sink.topic, str) and sink.topic in read:
            written.setdefault(sink.topic, set()).add(_as_written(sink))
    for topic, forms in written.items():
        yield f"topic {topic}", f"{_as_read(read[topic])}; written with {' and '.join(sorted(forms))}"


def _as_read(source: SourceTopic) -> str:
    return f"read with keys {_format(source.key_serde)}, values {_format(source.value_serde)}"


def _as_written(sink: SinkNode) -> str:
    placed = "Kafka's partitioner" if sink.partitioner is None else "a partitioner of its own"
    return f"keys {_format(sink.key_serde)}, values {_format(sink.value_serde)}, {placed}"


def _format(serde: Serde[object] | None) -> str:
    return "none" if serde is None else format_of(serde.name)
