"""Finds the serdes that an application uses for a topic, so that commands can decode the topic's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.common.errors import ConfigError
from penstock.common.serdes import Serde
from penstock.tasks.program import TaskProgram, source_topic
from penstock.topology.physical.topology import SinkNode

if TYPE_CHECKING:
    from penstock.cluster.client.kafka_streams import KafkaStreams


class TopicSerdes(NamedTuple):
    """The serdes of the keys and of the values in a topic."""

    key: Serde[Any]
    value: Serde[Any]


def topic_serdes(application: KafkaStreams, topic: str) -> TopicSerdes:
    """Returns the serdes with which ``application`` reads ``topic``, or if it does not read it, writes it. They are
    bound to the topic. Raises ConfigError, which names the topics that the application has."""
    read: dict[str, TopicSerdes] = {}
    written: dict[str, TopicSerdes] = {}
    for sub in application.topology.every_subtopology:
        program = TaskProgram.of([sub], application.config)
        read |= {name: TopicSerdes(each.key_serde, each.value_serde) for name, each in program.sources.items()}
        if (matched := source_topic(program, topic)) is not None:
            read[topic] = TopicSerdes(matched.key_serde, matched.value_serde)
        for node in program.nodes:
            if isinstance(node, SinkNode) and isinstance(node.topic, str) and node.key_serde and node.value_serde:
                written[node.topic] = TopicSerdes(node.key_serde, node.value_serde)
    found = read.get(topic) or written.get(topic)
    if found is None:
        names = ", ".join(sorted(read.keys() | written.keys()))
        raise ConfigError(
            f"application {application.config.application_id!r} neither reads nor writes topic {topic!r}: its topics "
            f"are {names}"
        )
    return found
