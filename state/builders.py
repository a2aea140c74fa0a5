"""What a store is, said before there is one: its name, kind, serdes and how it is kept safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic, TypeVar

from penstock.common.serdes import Serde

K = TypeVar("K")
V = TypeVar("V")


class StoreKind(Enum):
    """The form of a store's rows; ``value`` is what describes it to people."""

    KEY_VALUE = "key-value"
    """Rows are value bytes. Processor API."""
    TIMESTAMPED_KEY_VALUE = "timestamped key-value"
    """Rows are 8 bytes of timestamp and value bytes: every table and aggregate of the DSL."""


@dataclass(frozen=True)
class StoreBuilder(Generic[K, V]):
    """A store to be built in each task that uses it. Mirrors ``StoreBuilder``.

    ``persistent``: RocksDB, else memory (restored from the changelog at each start). ``caching``: downstream and
    changelog see one update per key and commit, else each. ``logging``: whether there is a changelog topic, with
    ``topic_config`` on top of Kafka Streams' own settings. ``source_topic``: the input topic that serves as changelog
    (``reuse.ktable.source.topics``).
    """

    name: str
    kind: StoreKind
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    persistent: bool = True
    caching: bool = False
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    source_topic: str | None = None

    def with_caching_enabled(self) -> StoreBuilder[K, V]:
        """One update per key and commit goes downstream and to the changelog."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreBuilder[K, V]:
        """Every update goes downstream and to the changelog."""
        return replace(self, caching=False)

    def with_logging_enabled(self, topic_config: Mapping[str, str]) -> StoreBuilder[K, V]:
        """Keep a changelog topic, created with ``topic_config`` on top of the defaults."""
        return replace(self, logging=True, topic_config=dict(topic_config))

    def with_logging_disabled(self) -> StoreBuilder[K, V]:
        """No changelog: the content is lost with the disk it lies on."""
        return replace(self, logging=False, topic_config={})


@dataclass(frozen=True)
class KeyValueBytesStoreSupplier:
    """Names a key-value store and says where it lies."""

    name: str
    persistent: bool


class Stores:
    """Factories of stores for the Processor API. Mirrors ``org.apache.kafka.streams.state.Stores``."""

    @staticmethod
    def persistent_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """A key-value store in RocksDB."""
        return KeyValueBytesStoreSupplier(name, persistent=True)

    @staticmethod
    def in_memory_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """A key-value store in memory; restored from its changelog whenever its task starts."""
        return KeyValueBytesStoreSupplier(name, persistent=False)

    @staticmethod
    def key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> StoreBuilder[K, V]:
        """A plain key-value store: caching off, logging on, as in Kafka Streams' Processor API."""
        return StoreBuilder(supplier.name, StoreKind.KEY_VALUE, key_serde, value_serde, supplier.persistent)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> StoreBuilder[K, V]:
        """A key-value store whose rows carry a timestamp: caching off, logging on."""
        return StoreBuilder(supplier.name, StoreKind.TIMESTAMPED_KEY_VALUE, key_serde, value_serde, supplier.persistent)


# What a builder of stores of any type is called where the types do not matter.
AnyStoreBuilder = StoreBuilder[Any, Any]
