"""``Stores``: how a program names its stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from penstock.common.serdes import Serde
from penstock.state.builders import StoreBuilder
from penstock.state.key_value_kinds import KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder

K = TypeVar("K")
V = TypeVar("V")


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
        return KeyValueStoreBuilder(supplier.name, key_serde, value_serde, supplier.persistent)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> StoreBuilder[K, V]:
        """A key-value store whose rows carry a timestamp: caching off, logging on."""
        return TimestampedKeyValueStoreBuilder(supplier.name, key_serde, value_serde, supplier.persistent)
