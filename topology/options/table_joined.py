"""``TableJoined``: the partitioners and names of the internal topics of a foreign-key join."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from penstock.topology.arity import checked_function
from penstock.topology.options.checks import check_name
from penstock.topology.processor_api.processor import StreamPartitioner

K = TypeVar("K")
KO = TypeVar("KO")


@dataclass(frozen=True)
class TableJoined(Generic[K, KO]):
    """Options for the subscriptions and responses that a foreign-key join sends between the tasks of the two tables.
    Mirrors ``TableJoined``.

    Only a table whose topic is not partitioned by Kafka's default needs a partitioner here: the same one that wrote its
    topic. ``partitioner`` returns the partition of an entry of the left table: called with (topic, its key, None,
    partitions); without it responses go back to the partition that has subscribed. ``other_partitioner`` returns that
    of an entry of the other table, by its key, the foreign key; None, or one that returns None, is Kafka's default
    (murmur2 of the key's bytes). A subscription has one response, so a partitioner must return exactly one partition.
    The join's nodes, its two topics (``<application.id>-<name>-subscription-registration-topic`` and
    ``-subscription-response-topic``) and its store are named after ``name``.
    """

    partitioner: StreamPartitioner | None = None
    other_partitioner: StreamPartitioner | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        for what, given in (("partitioner", self.partitioner), ("other_partitioner", self.other_partitioner)):
            if given is not None:
                checked_function(given, f"TableJoined: {what}", "topic", "key", "value", "partitions")
        check_name(self.name)

    @staticmethod
    def with_(
        partitioner: StreamPartitioner | None = None, other_partitioner: StreamPartitioner | None = None
    ) -> TableJoined[Any, Any]:
        """Returns options with the partitioners of the left and of the other table's topics.

        >>> import penstock as ps
        >>> by_length = lambda topic, key, value, partitions: len(key) % partitions
        >>> ps.TableJoined.with_(other_partitioner=by_length).partitioner is None
        True
        """
        return TableJoined(partitioner, other_partitioner)

    @staticmethod
    def as_(name: str) -> TableJoined[Any, Any]:
        """Returns options with the name of the join, of its topics and of its store."""
        return TableJoined(name=name)

    def with_partitioner(self, partitioner: StreamPartitioner) -> TableJoined[K, KO]:
        """Returns a copy with a partitioner of the left table's topics."""
        return replace(self, partitioner=partitioner)

    def with_other_partitioner(self, other_partitioner: StreamPartitioner) -> TableJoined[K, KO]:
        """Returns a copy with a partitioner of the other table's topics."""
        return replace(self, other_partitioner=other_partitioner)

    def with_name(self, name: str) -> TableJoined[K, KO]:
        """Returns a copy with a name."""
        return replace(self, name=name)
