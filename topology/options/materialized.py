"""``Materialized``: the options for the store of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, TypeVar, cast

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serde
from penstock.common.shown import shown_with_type
from penstock.common.time import Duration, to_ms
from penstock.state.builders import StoreBuilder
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.state.stores import KeyValueBytesStoreSupplier, SessionBytesStoreSupplier, WindowBytesStoreSupplier
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder
from penstock.state.versioned.supplier import VersionedBytesStoreSupplier
from penstock.topology.options.checks import check_name, check_serdes, retyped

K = TypeVar("K")
V = TypeVar("V")
# Factories have type variables of their own: pyright does not infer those of a class in its static methods.
K1 = TypeVar("K1")
V1 = TypeVar("V1")

_SUPPLIERS = (
    KeyValueBytesStoreSupplier,
    WindowBytesStoreSupplier,
    SessionBytesStoreSupplier,
    VersionedBytesStoreSupplier,
)


class StoreType(Enum):
    """The place of a table's store. Mirrors ``Materialized.StoreType``."""

    ROCKS_DB = "rocksDB"
    """On disk: the default."""
    IN_MEMORY = "in_memory"
    """In memory; restored from its changelog whenever its task starts."""


def checked_store_type(given: object, owner: str) -> None:
    """Raises TopologyError unless ``given`` is a StoreType: its value, ``"rocksDB"``, is easily taken for one."""
    if not isinstance(given, StoreType):
        raise TopologyError(
            f"{owner}: store_type must be StoreType.ROCKS_DB or StoreType.IN_MEMORY, not {shown_with_type(given)}"
        )


@dataclass(frozen=True)
class Materialized(Generic[K, V]):
    """Options for the store of a table. Mirrors ``Materialized``.

    A store with a name can be queried by it, and its changelog is ``<application.id>-<name>-changelog``. ``caching``:
    downstream and changelog see one update per key and commit, else every update. ``logging``: True if there is a
    changelog, created with ``topic_config`` on top of Kafka Streams' own settings; without one the content is lost with
    its disk. ``retention_ms``: the stream time for which windows are kept; None: for as long as they take records.
    ``supplier``: a supplier of window, session or versioned stores, which determines the retention itself. A versioned
    store has no caching, whatever ``caching`` says. ``ttl_ms``: the time after its last update at which a row expires;
    None: never.
    """

    name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    caching: bool = True
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    store_type: StoreType = StoreType.ROCKS_DB
    retention_ms: int | None = None
    supplier: WindowBytesStoreSupplier | SessionBytesStoreSupplier | VersionedBytesStoreSupplier | None = None
    ttl_ms: int | None = None

    def __post_init__(self) -> None:
        if self.ttl_ms is not None and self.ttl_ms < 1:
            raise TopologyError(f"Materialized: a TTL must be 1 ms at least, not {self.ttl_ms} ms")
        if self.supplier is not None:
            self.refuse_ttl("a window, session or versioned store", "it has the retention that its supplier says")
        check_name(self.name, "store name")
        checked_store_type(self.store_type, "Materialized")
        check_serdes(self, "key_serde", "value_serde")

    @staticmethod
    def as_(
        store: str
        | KeyValueBytesStoreSupplier
        | WindowBytesStoreSupplier
        | SessionBytesStoreSupplier
        | VersionedBytesStoreSupplier,
    ) -> Materialized[K1, V1]:
        """Returns options with a store's name, or with a supplier of ``Stores`` that has its name and type; one of
        window stores or session stores, for a windowed table, also has the retention of windows.

        That of a versioned store makes a versioned table: an update that is older than the latest of its key becomes
        part of its history, and streams are joined with what was valid at the time of each of their records.

        The types of keys and values are those of the operator it is given to. For a variable, annotate them:
        ``counts: Materialized[str, int] = Materialized.as_("counts")``.

        >>> import penstock as ps
        >>> ps.Materialized.as_("counts").with_caching_disabled().caching
        False
        """
        if isinstance(store, _SUPPLIERS):
            kept = StoreType.ROCKS_DB if store.persistent else StoreType.IN_MEMORY
            supplier = None if isinstance(store, KeyValueBytesStoreSupplier) else store
            return Materialized(store.name, store_type=kept, supplier=supplier)
        return Materialized(store)

    @staticmethod
    def with_(key_serde: Serde[K1] | None = None, value_serde: Serde[V1] | None = None) -> Materialized[K1, V1]:
        """Returns options of a store without a name: it is kept only if an operator needs it, and cannot be queried."""
        return Materialized(None, key_serde, value_serde)

    def with_key_serde(self, key_serde: Serde[K1]) -> Materialized[K1, V]:
        """Returns a copy with another key serde."""
        return cast("Materialized[K1, V]", retyped(self, key_serde=key_serde))

    def with_value_serde(self, value_serde: Serde[V1]) -> Materialized[K, V1]:
        """Returns a copy with another value serde."""
        return cast("Materialized[K, V1]", retyped(self, value_serde=value_serde))

    def with_caching_enabled(self) -> Materialized[K, V]:
        """Forward one update per key and commit, downstream and to the changelog: the default."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> Materialized[K, V]:
        """Forward every update, downstream and to the changelog."""
        return replace(self, caching=False)

    def with_logging_enabled(self, topic_config: Mapping[str, str]) -> Materialized[K, V]:
        """Keep a changelog (the default), created with ``topic_config`` on top of the usual settings."""
        return replace(self, logging=True, topic_config=dict(topic_config))

    def with_logging_disabled(self) -> Materialized[K, V]:
        """Keep no changelog."""
        return replace(self, logging=False, topic_config={})

    def with_store_type(self, store_type: StoreType) -> Materialized[K, V]:
        """Keep the store on disk or in memory."""
        return replace(self, store_type=store_type)

    def with_retention(self, retention: Duration) -> Materialized[K, V]:
        """Keep windows for ``retention`` by stream time; it may not be shorter than they take records. Mirrors
        ``withRetention``; it has no effect for tables that are not windowed. Raises ValueError for a negative one."""
        return replace(self, retention_ms=to_ms(retention, "Materialized: retention"))

    def with_ttl(self, ttl: Duration) -> Materialized[K, V]:
        """Let rows expire ``ttl`` after their last update, in event time. Kafka Streams cannot (KIP-1225 asks for it).

        A row that was last updated at *t* expires when the stream time of its task, the largest timestamp of any input,
        reaches *t* + ``ttl``: it is deleted, from the changelog too, and a deletion with that timestamp goes
        downstream, before the record that moved the time is processed. An update that is as late as that is dropped and
        counted in ``dropped-records-total``; a deletion is not. Only tables without windows may have a TTL: those of a
        topic or a stream, filtered, mapped or joined ones that are kept in a store, and aggregates of streams, which
        begin again after a row has expired.

        Raises TopologyError for a TTL of 0, and ValueError for a negative one. More in docs/TTL.md.

        >>> import penstock as ps
        >>> ps.Materialized.as_("sessions").with_ttl(1_800_000).ttl_ms
        1800000
        """
        return replace(self, ttl_ms=to_ms(ttl, "Materialized: ttl"))

    def refuse_ttl(self, what: str, why: str) -> None:
        """Raises TopologyError if there is a TTL: ``what`` has none, because of ``why``."""
        if self.ttl_ms is not None:
            raise TopologyError(f"Materialized.with_ttl: {what} cannot have a TTL: {why}")

    def builder(
        self,
        kind: type[TimestampedKeyValueStoreBuilder[K, V]],
        name: str,
        key_serde: Serde[K] | None,
        value_serde: Serde[V] | None,
    ) -> StoreBuilder[K, V]:
        """Returns the builder of the table's store under ``name``: a ``kind``, unless the supplier is one of versioned
        stores. A serde that is not set here is the one given.

        Raises TopologyError for a supplier of window or session stores.
        """
        serdes = self.key_serde or key_serde, self.value_serde or value_serde
        if isinstance(self.supplier, VersionedBytesStoreSupplier):
            return VersionedKeyValueStoreBuilder(
                name,
                *serdes,
                self.supplier.persistent,
                logging=self.logging,
                topic_config=self.topic_config,
                history_retention_ms=self.supplier.history_retention_ms,
                segment_interval_ms=self.supplier.segment_interval_ms,
            )
        if self.supplier is not None:
            kept = "window" if isinstance(self.supplier, WindowBytesStoreSupplier) else "session"
            raise TopologyError(f"Materialized: a KTable needs a key-value store, not a {kept} store ({name!r})")
        built = kind(
            name,
            *serdes,
            persistent=self.store_type is StoreType.ROCKS_DB,
            caching=self.caching,
            logging=self.logging,
            topic_config=self.topic_config,
            of_dsl=True,
        )
        return built if self.ttl_ms is None else retyped(built, ttl_ms=self.ttl_ms)
