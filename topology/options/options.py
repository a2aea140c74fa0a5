"""The option objects of the DSL: small, frozen, named as in Kafka Streams.

Each has ``with_(...)`` and, if it carries a name, ``as_(name)`` as factories, and ``with_...`` methods that return a
changed copy. A serde that is None is inherited from upstream, and if none is known there, taken from the
configuration (``default.key.serde``, ``default.value.serde``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from penstock.common.errors import TopologyError
from penstock.common.extractors import TimestampExtractor
from penstock.common.offset_resets import ByDuration, OffsetReset
from penstock.common.serdes import Serde
from penstock.common.time import Duration, to_ms
from penstock.topology.arity import EXTRACTOR_PARAMETERS, checked_function
from penstock.topology.naming import checked_name
from penstock.topology.options.checks import check_name, check_serdes, retyped
from penstock.topology.processor_api.processor import StreamPartitioner

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")
# Factories have type variables of their own: pyright does not infer those of a class in its static methods.
K1 = TypeVar("K1")
V1 = TypeVar("V1")
V3 = TypeVar("V3")
# Types of a topic, for which a serde may come from the configuration, which no type checker reads.
KT = TypeVar("KT", default=Any)
VT = TypeVar("VT", default=Any)


@dataclass(frozen=True)
class Named:
    """The name of an operator. Mirrors ``Named``.

    At most 249 ASCII letters, digits, ``.``, ``_`` and ``-``; unique within the topology.
    """

    name: str

    def __post_init__(self) -> None:
        checked_name(self.name)

    @staticmethod
    def as_(name: str) -> Named:
        """Returns an operator's name. Raises TopologyError for an illegal one."""
        return Named(name)


@dataclass(frozen=True)
class Consumed(Generic[K, V]):
    """Options for reading a topic. Mirrors ``Consumed``.

    ``timestamp_extractor``: None takes ``default.timestamp.extractor``. ``offset_reset``: None is
    ``earliest``. ``name`` names the source node.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: OffsetReset | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_serdes(self, "key_serde", "value_serde")
        if self.timestamp_extractor is not None:
            checked_function(self.timestamp_extractor, "Consumed: timestamp_extractor", *EXTRACTOR_PARAMETERS)
        named = None, "earliest", "latest", "none"
        if not isinstance(self.offset_reset, ByDuration) and self.offset_reset not in named:
            raise TopologyError(
                "Consumed: offset_reset must be 'earliest', 'latest', 'none' or AutoOffsetReset.by_duration(…), not "
                f"{self.offset_reset!r}"
            )
        check_name(self.name)

    @staticmethod
    def with_(
        key_serde: Serde[KT] | None = None,
        value_serde: Serde[VT] | None = None,
        *,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: OffsetReset | None = None,
    ) -> Consumed[KT, VT]:
        """Returns options with serdes and, if wanted, an extractor of event time and a position to begin at.

        >>> import penstock as ps
        >>> ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()).value_serde
        Serde(long)
        """
        return Consumed(key_serde, value_serde, timestamp_extractor, offset_reset)

    @staticmethod
    def as_(name: str) -> Consumed[Any, Any]:
        """Returns options with the name of the source node."""
        return Consumed(name=name)

    def with_key_serde(self, key_serde: Serde[K1]) -> Consumed[K1, V]:
        """Returns a copy with another key serde."""
        return cast("Consumed[K1, V]", retyped(self, key_serde=key_serde))

    def with_value_serde(self, value_serde: Serde[V1]) -> Consumed[K, V1]:
        """Returns a copy with another value serde."""
        return cast("Consumed[K, V1]", retyped(self, value_serde=value_serde))

    def with_timestamp_extractor(self, timestamp_extractor: TimestampExtractor) -> Consumed[K, V]:
        """Returns a copy with an extractor of event time (ms)."""
        return replace(self, timestamp_extractor=timestamp_extractor)

    def with_offset_reset_policy(self, offset_reset: OffsetReset) -> Consumed[K, V]:
        """Returns a copy with this offset reset, for a topic without a committed offset: reading begins at
        ``earliest``, at ``latest``, or at the position of :meth:`~penstock.AutoOffsetReset.by_duration`; with ``none``
        the application fails."""
        return replace(self, offset_reset=offset_reset)

    def with_name(self, name: str) -> Consumed[K, V]:
        """Returns a copy with a name for the source node."""
        return replace(self, name=name)


@dataclass(frozen=True)
class Produced(Generic[K, V]):
    """Options for writing a topic. Mirrors ``Produced``.

    ``partitioner`` of (topic, key, value, partitions): None takes Kafka's default (murmur2 of the key's bytes). It
    returns a partition, a set of partitions that all get the record, or None for the default; an empty set drops the
    record.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: StreamPartitioner | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_serdes(self, "key_serde", "value_serde")
        if self.partitioner is not None:
            checked_function(self.partitioner, "Produced: partitioner", "topic", "key", "value", "partitions")
        check_name(self.name)

    @staticmethod
    def with_(
        key_serde: Serde[K1] | None = None,
        value_serde: Serde[V1] | None = None,
        *,
        partitioner: StreamPartitioner | None = None,
    ) -> Produced[K1, V1]:
        """Returns options with serdes and, if wanted, a partitioner."""
        return Produced(key_serde, value_serde, partitioner)

    @staticmethod
    def as_(name: str) -> Produced[Any, Any]:
        """Returns options with the name of the sink node."""
        return Produced(name=name)

    def with_key_serde(self, key_serde: Serde[K1]) -> Produced[K1, V]:
        """Returns a copy with another key serde."""
        return cast("Produced[K1, V]", retyped(self, key_serde=key_serde))

    def with_value_serde(self, value_serde: Serde[V1]) -> Produced[K, V1]:
        """Returns a copy with another value serde."""
        return cast("Produced[K, V1]", retyped(self, value_serde=value_serde))

    def with_stream_partitioner(self, partitioner: StreamPartitioner) -> Produced[K, V]:
        """Returns a copy with a partitioner."""
        return replace(self, partitioner=partitioner)

    def with_name(self, name: str) -> Produced[K, V]:
        """Returns a copy with a name for the sink node."""
        return replace(self, name=name)


@dataclass(frozen=True)
class Grouped(Generic[K, V]):
    """Options for grouping a stream. Mirrors ``Grouped``.

    ``name`` is that of the repartition topic (``<application.id>-<name>-repartition``), if one is needed, and of the
    operator that selects the key. If it is given without serdes, the stream's are not inherited: the configuration's
    are used.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_serdes(self, "key_serde", "value_serde")
        check_name(self.name)

    @staticmethod
    def with_(key_serde: Serde[K1] | None = None, value_serde: Serde[V1] | None = None) -> Grouped[K1, V1]:
        """Returns options with serdes of the repartition topic and of the aggregates' keys."""
        return Grouped(key_serde, value_serde)

    @staticmethod
    def as_(name: str) -> Grouped[K1, V1]:
        """Returns options with the name of the repartition topic."""
        return Grouped(name=name)

    def with_key_serde(self, key_serde: Serde[K1]) -> Grouped[K1, V]:
        """Returns a copy with another key serde."""
        return cast("Grouped[K1, V]", retyped(self, key_serde=key_serde))

    def with_value_serde(self, value_serde: Serde[V1]) -> Grouped[K, V1]:
        """Returns a copy with another value serde."""
        return cast("Grouped[K, V1]", retyped(self, value_serde=value_serde))

    def with_name(self, name: str) -> Grouped[K, V]:
        """Returns a copy with a name for the repartition topic."""
        return replace(self, name=name)


@dataclass(frozen=True)
class Joined(Generic[K, V, V2]):
    """Options for joining a stream with a table. Mirrors ``Joined``.

    ``key_serde`` and ``value_serde`` are those of the stream (used if it must be repartitioned),
    ``other_value_serde`` that of the table, which its own store already knows. ``name`` names the join and its
    repartition topic. ``grace_period_ms``: the time (ms), by the stream's timestamps, for which its records wait for
    the table's updates of their time; None: they do not wait.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[V2] | None = None
    name: str | None = None
    grace_period_ms: int | None = None

    def __post_init__(self) -> None:
        check_serdes(self, "key_serde", "value_serde", "other_value_serde")
        check_name(self.name)

    @staticmethod
    def with_(
        key_serde: Serde[K1] | None = None,
        value_serde: Serde[V1] | None = None,
        other_value_serde: Serde[V3] | None = None,
    ) -> Joined[K1, V1, V3]:
        """Returns options with serdes of key, stream value and table value."""
        return Joined(key_serde, value_serde, other_value_serde)

    @staticmethod
    def as_(name: str) -> Joined[K1, V1, V3]:
        """Returns options with the name of the join and of its repartition topic."""
        return Joined(name=name)

    def with_key_serde(self, key_serde: Serde[K1]) -> Joined[K1, V, V2]:
        """Returns a copy with another key serde."""
        return cast("Joined[K1, V, V2]", retyped(self, key_serde=key_serde))

    def with_value_serde(self, value_serde: Serde[V1]) -> Joined[K, V1, V2]:
        """Returns a copy with another serde of the stream's values."""
        return cast("Joined[K, V1, V2]", retyped(self, value_serde=value_serde))

    def with_other_value_serde(self, other_value_serde: Serde[V3]) -> Joined[K, V, V3]:
        """Returns a copy with another serde of the table's values."""
        return cast("Joined[K, V, V3]", retyped(self, other_value_serde=other_value_serde))

    def with_name(self, name: str) -> Joined[K, V, V2]:
        """Returns a copy with a name."""
        return replace(self, name=name)

    def with_grace_period(self, grace_period: Duration) -> Joined[K, V, V2]:
        """Returns a copy with a grace period, for a join with a versioned table whose history is at least as long.

        A record of the stream is joined once another one is later than it by the grace period (if
        ``window.idle.advance.ms`` is set, also without one), with the value that the table had at its time. So updates
        of that time may come after it. Records that wait are kept in a store ``<join>-Buffer`` with a changelog, and
        are joined in the order of their timestamps. One that comes later than the grace period is joined at once.
        """
        return replace(self, grace_period_ms=to_ms(grace_period, "Joined: grace_period"))


@dataclass(frozen=True)
class Repartitioned(Generic[K, V]):
    """Options for ``repartition`` and its topic. Mirrors ``Repartitioned``.

    ``name``: the topic is ``<application.id>-<name>-repartition``. ``number_of_partitions``: None takes that of the
    topics upstream. ``partitioner``: like that of :class:`Produced`.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None
    number_of_partitions: int | None = None
    partitioner: StreamPartitioner | None = None

    def __post_init__(self) -> None:
        check_serdes(self, "key_serde", "value_serde")
        check_name(self.name)
        count = self.number_of_partitions
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise TopologyError(f"Repartitioned: number_of_partitions must be at least 1, not {count!r}")
        if self.partitioner is not None:
            checked_function(self.partitioner, "Repartitioned: partitioner", "topic", "key", "value", "partitions")

    @staticmethod
    def with_(key_serde: Serde[K1] | None = None, value_serde: Serde[V1] | None = None) -> Repartitioned[K1, V1]:
        """Returns options with serdes of the repartition topic."""
        return Repartitioned(key_serde, value_serde)

    @staticmethod
    def as_(name: str) -> Repartitioned[Any, Any]:
        """Returns options with the name of the repartition topic."""
        return Repartitioned(name=name)

    def with_key_serde(self, key_serde: Serde[K1]) -> Repartitioned[K1, V]:
        """Returns a copy with another key serde."""
        return cast("Repartitioned[K1, V]", retyped(self, key_serde=key_serde))

    def with_value_serde(self, value_serde: Serde[V1]) -> Repartitioned[K, V1]:
        """Returns a copy with another value serde."""
        return cast("Repartitioned[K, V1]", retyped(self, value_serde=value_serde))

    def with_name(self, name: str) -> Repartitioned[K, V]:
        """Returns a copy with a name for the topic."""
        return replace(self, name=name)

    def with_number_of_partitions(self, number_of_partitions: int) -> Repartitioned[K, V]:
        """Returns a copy with a fixed number of partitions."""
        return replace(self, number_of_partitions=number_of_partitions)

    def with_stream_partitioner(self, partitioner: StreamPartitioner) -> Repartitioned[K, V]:
        """Returns a copy with a partitioner."""
        return replace(self, partitioner=partitioner)
