"""The brokers that serve a Kafka cluster, and the leaders of partitions, as a broker's metadata have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.common.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata


class Replicas(NamedTuple):
    """The brokers of a partition, by id. ``leader`` is None if it has none: then nothing reads or writes it.
    ``in_sync``: those that have all of its records."""

    leader: int | None
    brokers: tuple[int, ...]
    in_sync: tuple[int, ...]


class Brokers(NamedTuple):
    """``addresses``: host and port of each broker that is part of the cluster now, by id. ``partitions``: those of all
    topics that this client may see."""

    addresses: Mapping[int, str]
    partitions: Mapping[TopicPartition, Replicas]


def brokers_of(listed: ClusterMetadata) -> Brokers:
    """Returns the brokers and partitions of librdkafka's metadata."""
    return Brokers(
        {number: f"{broker.host}:{broker.port}" for number, broker in listed.brokers.items()},
        {
            TopicPartition(name, number): Replicas(
                each.leader if each.leader >= 0 else None, tuple(each.replicas), tuple(each.isrs)
            )
            for name, topic in listed.topics.items()
            for number, each in topic.partitions.items()
        },
    )
