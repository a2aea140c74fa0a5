"""Answers users' questions about topics: their names, their layout, the offset of a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Tpo
from confluent_kafka.admin._config import ConfigResource, ConfigSource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic as ClientNewTopic

from penstock.common.errors import ConfigError, MissingTopicError
from penstock.common.ids import TopicPartition
from penstock.common.shown import similar_to
from penstock.common.topics import NewTopic
from penstock.kafka.admin import ConfluentAdmin
from penstock.kafka.answers import bounded_result
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.leaders import checked_offset, of_the_leaders
from penstock.kafka.settings import (
    REQUEST_TIMEOUT_S,
    as_streams_error,
    broker_errors,
    code_of,
)

_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # untyped in the package


@dataclass(frozen=True)
class PartitionLayout:
    """One partition: brokers by their ids (leader −1: none now), the first offset, and the next one to be written."""

    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    beginning: int
    end: int


@dataclass(frozen=True)
class TopicLayout:
    """A topic. ``configs``: the settings that were made for this topic, and so may differ from the broker's."""

    name: str
    partitions: tuple[PartitionLayout, ...]
    configs: Mapping[str, str]


class Topics(ConfluentAdmin):
    """The topics of one Kafka cluster: an admin client that also answers users' questions."""

    def __init__(self, bootstrap_servers: str, overrides: Mapping[str, Any] | None = None) -> None:
        super().__init__(bootstrap_servers, overrides or {})

    @classmethod
    def of(cls, clients: ConfluentClients) -> Topics:
        """Returns a client that connects as the admin client of ``clients`` does."""
        return cls(clients.bootstrap_servers, clients.admin_overrides)

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Returns the partitions of a topic. Raises MissingTopicError, naming the topics with similar names."""
        counts = self.topics(f"look up topic {topic!r}")
        if topic not in counts:
            raise MissingTopicError(
                f"there is no topic {topic!r} at {self._address}{similar_to(topic, counts)}: 'penstock topic list' "
                f"shows all topics, 'penstock topic create {topic}' creates it"
            )
        return [TopicPartition(topic, number) for number in range(counts[topic])]

    def create(self, topic: NewTopic) -> None:
        """Create a topic (−1 partitions: as many as the broker gives), and wait until the brokers list it, so that a
        program that is started next finds it. Does not wait if this client may not look at the topic. Raises
        ConfigError when it exists, StreamsError when it is created and not listed within half a minute."""
        asked = ClientNewTopic(topic.name, topic.partitions, topic.replication_factor, config=dict(topic.config))
        what = f"create topic {topic.name!r}"
        with self._errors(what):
            self._connect_within()
            [answer] = self._client.create_topics([asked], request_timeout=REQUEST_TIMEOUT_S).values()
        try:
            bounded_result(answer)
        except KafkaException as error:
            if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                raise ConfigError(
                    f"topic {topic.name!r} exists already at {self._address} and is left as it is "
                    f"('penstock topic describe {topic.name}' shows it)"
                ) from None
            raise as_streams_error(error, what, self._address) from error
        if self._may_look_at(topic.name):
            self._until_visible([topic])

    def _may_look_at(self, topic: str) -> bool:
        """Returns False if this client lacks the permission: a list of all topics would omit this one for ever."""
        with broker_errors(f"look up topic {topic!r}", self._address):
            found = self._client.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
        return found.error is None or found.error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED

    def describe(self, topic: str) -> TopicLayout:
        """Returns the layout of ``topic`` on the brokers. Raises MissingTopicError."""
        partitions = self.partitions(topic)
        beginnings, ends = self.beginning_offsets(partitions), self.end_offsets(partitions)
        with broker_errors(f"describe topic {topic!r}", self._address):
            [described] = self._client.describe_topics(
                TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S
            ).values()
            found = bounded_result(described)
        layouts = [
            PartitionLayout(
                each.id,
                -1 if each.leader is None else each.leader.id,
                tuple(node.id for node in each.replicas),
                tuple(node.id for node in each.isr),
                beginnings[TopicPartition(topic, each.id)],
                ends[TopicPartition(topic, each.id)],
            )
            for each in found.partitions
        ]
        return TopicLayout(topic, tuple(sorted(layouts, key=lambda it: it.number)), self._configs(topic))

    def _configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        with broker_errors(f"ask for the configuration of topic {topic!r}", self._address):
            [answer] = self._client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S).values()
            entries = bounded_result(answer)
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        # The client gives the source as a number, although its types declare an enumeration.
        set_here = {name: it.value for name, it in entries.items() if getattr(it.source, "value", it.source) == own}
        return {name: str(value) for name, value in sorted(set_here.items())}

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the first offset that exists in each partition."""
        return self._offsets(dict.fromkeys(partitions, _EARLIEST))

    def offsets_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """Returns the offset of each partition's first record of that time (ms) or later; its end if there is none."""
        asked = list(partitions)
        ends = self.end_offsets(asked)
        found = self._offsets(dict.fromkeys(asked, OffsetSpec.for_timestamp(time_ms)))
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    def _offsets(self, asked: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, int]:
        def ask() -> dict[TopicPartition, int]:
            answers = self._client.list_offsets(
                {Tpo(*partition): spec for partition, spec in asked.items()},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=REQUEST_TIMEOUT_S,
            )
            return {
                TopicPartition(tp.topic, tp.partition): checked_offset(bounded_result(answer).offset)
                for tp, answer in answers.items()
            }

        with broker_errors("ask for offsets", self._address):
            return of_the_leaders(self._client, ask)
