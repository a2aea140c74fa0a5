"""``Stores``: the factories by which a program names its stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serde
from penstock.common.time import Duration, to_ms
from penstock.state.builders import StoreBuilder
from penstock.state.key_value.store import KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder
from penstock.state.versioned.supplier import VersionedBytesStoreSupplier, versioned_supplier
from penstock.state.windowed.session_store import SessionStoreBuilder
from penstock.state.windowed.window_store import TimestampedWindowStoreBuilder, WindowStoreBuilder

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class KeyValueBytesStoreSupplier:
    """The name of a key-value store, and its place: RocksDB or memory."""

    name: str
    persistent: bool


@dataclass(frozen=True)
class WindowBytesStoreSupplier:
    """The name of a window store, its place (RocksDB or memory), its retention, and the size of its windows."""

    name: str
    persistent: bool
    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool


@dataclass(frozen=True)
class SessionBytesStoreSupplier:
    """The name of a session store, its place (RocksDB or memory), and its retention."""

    name: str
    persistent: bool
    retention_ms: int


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
        _check(supplier, KeyValueBytesStoreSupplier, "key_value_store_builder", "persistent_key_value_store")
        return KeyValueStoreBuilder(supplier.name, key_serde, value_serde, supplier.persistent)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> TimestampedKeyValueStoreBuilder[K, V]:
        """A key-value store whose rows carry a timestamp: caching off, logging on. Rows may expire: ``with_ttl``."""
        _check(
            supplier, KeyValueBytesStoreSupplier, "timestamped_key_value_store_builder", "persistent_key_value_store"
        )
        return TimestampedKeyValueStoreBuilder(supplier.name, key_serde, value_serde, supplier.persistent)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> StoreBuilder[K, V]:
        """A key-value store that keeps a timestamp and headers with each value (:class:`ValueTimestampHeaders`);
        its changelog has them as those of the record: caching off, logging on. Mirrors
        ``timestampedKeyValueStoreWithHeadersBuilder`` (KIP-1271)."""
        needs = "timestamped_key_value_store_with_headers_builder", "persistent_key_value_store"
        _check(supplier, KeyValueBytesStoreSupplier, *needs)
        return TimestampedKeyValueStoreBuilder(supplier.name, key_serde, value_serde, supplier.persistent, headers=True)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedBytesStoreSupplier:
        """A versioned store in RocksDB.

        ``history_retention``: the time, counted back from the largest timestamp ever put into the store, for which it
        can be queried and takes versions. ``segment_interval``: versions of a key that are replaced within such a span
        are in one row, which affects only speed; by default a fraction of the history, as in Kafka Streams. Raises
        ValueError for a negative history or an interval below 1 ms.
        """
        return versioned_supplier(name, True, history_retention, segment_interval)

    @staticmethod
    def in_memory_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedBytesStoreSupplier:
        """A versioned store in memory; restored from its changelog whenever its task starts. Not in Kafka Streams."""
        return versioned_supplier(name, False, history_retention, segment_interval)

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: VersionedBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> StoreBuilder[K, V]:
        """A versioned store: logging on, without caching."""
        _check(
            supplier,
            VersionedBytesStoreSupplier,
            "versioned_key_value_store_builder",
            "persistent_versioned_key_value_store",
        )
        return VersionedKeyValueStoreBuilder(
            supplier.name,
            key_serde,
            value_serde,
            supplier.persistent,
            history_retention_ms=supplier.history_retention_ms,
            segment_interval_ms=supplier.segment_interval_ms,
        )

    @staticmethod
    def persistent_window_store(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """A window store in RocksDB.

        ``retention_period``: the time for which a window is kept after its start, by the largest window start that the
        store was given. ``window_size``: the time from a window's start to its end. ``retain_duplicates``: keep each
        value that is put for a key and window, not only the last. Raises ValueError for a retention shorter than the
        windows.
        """
        return _window_store(name, True, retention_period, window_size, retain_duplicates)

    @staticmethod
    def in_memory_window_store(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """A window store in memory; restored from its changelog whenever its task starts.

        Arguments and behaviour are those of :meth:`persistent_window_store`. In contrast, Kafka Streams' store in
        memory drops late values exactly by their time instead of by the segment, and orders rows of several keys by
        time first.
        """
        return _window_store(name, False, retention_period, window_size, retain_duplicates)

    @staticmethod
    def window_store_builder(
        supplier: WindowBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> StoreBuilder[K, V]:
        """A plain window store: caching off, logging on."""
        _check(supplier, WindowBytesStoreSupplier, "window_store_builder", "persistent_window_store")
        return WindowStoreBuilder(
            supplier.name,
            key_serde,
            value_serde,
            supplier.persistent,
            retention_ms=supplier.retention_ms,
            window_size_ms=supplier.window_size_ms,
            retain_duplicates=supplier.retain_duplicates,
        )

    @staticmethod
    def timestamped_window_store_builder(
        supplier: WindowBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> StoreBuilder[K, V]:
        """A window store whose rows carry a timestamp: caching off, logging on."""
        _check(supplier, WindowBytesStoreSupplier, "timestamped_window_store_builder", "persistent_window_store")
        return TimestampedWindowStoreBuilder(
            supplier.name,
            key_serde,
            value_serde,
            supplier.persistent,
            retention_ms=supplier.retention_ms,
            window_size_ms=supplier.window_size_ms,
            retain_duplicates=supplier.retain_duplicates,
        )

    @staticmethod
    def timestamped_window_store_with_headers_builder(
        supplier: WindowBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> StoreBuilder[K, V]:
        """A window store that keeps a timestamp and headers with each value (:class:`ValueTimestampHeaders`); its
        changelog has them as those of the record: caching off, logging on. Mirrors
        ``timestampedWindowStoreWithHeadersBuilder`` (KIP-1271)."""
        needs = "timestamped_window_store_with_headers_builder", "persistent_window_store"
        _check(supplier, WindowBytesStoreSupplier, *needs)
        return TimestampedWindowStoreBuilder(
            supplier.name,
            key_serde,
            value_serde,
            supplier.persistent,
            headers=True,
            retention_ms=supplier.retention_ms,
            window_size_ms=supplier.window_size_ms,
            retain_duplicates=supplier.retain_duplicates,
        )

    @staticmethod
    def persistent_session_store(name: str, retention_period: Duration) -> SessionBytesStoreSupplier:
        """A session store in RocksDB. ``retention_period``: the time for which a session is kept after its end, by the
        largest session end that the store was given."""
        return SessionBytesStoreSupplier(name, True, to_ms(retention_period, "retention_period"))

    @staticmethod
    def in_memory_session_store(name: str, retention_period: Duration) -> SessionBytesStoreSupplier:
        """A session store in memory; restored from its changelog whenever its task starts."""
        return SessionBytesStoreSupplier(name, False, to_ms(retention_period, "retention_period"))

    @staticmethod
    def session_store_builder(
        supplier: SessionBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> StoreBuilder[K, V]:
        """A session store: caching off, logging on."""
        _check(supplier, SessionBytesStoreSupplier, "session_store_builder", "persistent_session_store")
        return SessionStoreBuilder(
            supplier.name, key_serde, value_serde, supplier.persistent, retention_ms=supplier.retention_ms
        )

    @staticmethod
    def session_store_with_headers_builder(
        supplier: SessionBytesStoreSupplier, key_serde: Serde[K], value_serde: Serde[V]
    ) -> StoreBuilder[K, V]:
        """A session store that keeps headers with each value (:class:`AggregationWithHeaders`); its changelog has
        them as those of the record: caching off, logging on. Mirrors ``sessionStoreWithHeadersBuilder`` (KIP-1271)."""
        _check(supplier, SessionBytesStoreSupplier, "session_store_with_headers_builder", "persistent_session_store")
        return SessionStoreBuilder(
            supplier.name, key_serde, value_serde, supplier.persistent, headers=True, retention_ms=supplier.retention_ms
        )


def _window_store(
    name: str, persistent: bool, retention_period: Duration, window_size: Duration, retain_duplicates: bool
) -> WindowBytesStoreSupplier:
    retention_ms, size_ms = to_ms(retention_period, "retention_period"), to_ms(window_size, "window_size")
    if size_ms > retention_ms:
        raise ValueError(
            f"store {name}: the retention period must be no smaller than the window size: got {retention_ms} ms for "
            f"windows of {size_ms} ms"
        )
    return WindowBytesStoreSupplier(name, persistent, retention_ms, size_ms, retain_duplicates)


def _check(supplier: object, wanted: type, factory: str, maker: str) -> None:
    if not isinstance(supplier, wanted):
        raise TopologyError(f"Stores.{factory} needs a supplier such as Stores.{maker}(...) makes, not {supplier!r}")
