"""``StreamJoined``: the options for joining two streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar, cast

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serde
from penstock.common.shown import shown_with_type
from penstock.state.stores import WindowBytesStoreSupplier
from penstock.topology.options.checks import check_name, check_serdes, retyped

K = TypeVar("K")
V = TypeVar("V")
V2 = TypeVar("V2")
# Factories have type variables of their own: pyright does not infer those of a class in its static methods.
K1 = TypeVar("K1")
V1 = TypeVar("V1")
V3 = TypeVar("V3")


@dataclass(frozen=True)
class StreamJoined(Generic[K, V, V2]):
    """Options for joining two streams. Mirrors ``StreamJoined``.

    ``value_serde`` is that of the first stream's values, ``other_value_serde`` that of the second's. ``name`` names the
    operators and the repartition topics (``<name>-left``, ``<name>-right``), ``store_name`` the stores and with them
    their changelogs; neither name sets the other. The stores are in RocksDB, unless suppliers of ``Stores`` are given:
    suppliers of window stores that retain duplicates, whose windows are as long as the join's, and whose retention is
    that length plus the grace period. ``logging``: True if the stores have changelogs, created with ``topic_config`` on
    top of Kafka Streams' own settings; without changelogs, records that wait for a match are lost with their disk.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[V2] | None = None
    name: str | None = None
    store_name: str | None = None
    this_store_supplier: WindowBytesStoreSupplier | None = None
    other_store_supplier: WindowBytesStoreSupplier | None = None
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_serdes(self, "key_serde", "value_serde", "other_value_serde")
        check_name(self.name)
        check_name(self.store_name, "store name")
        this, other = self.this_store_supplier, self.other_store_supplier
        for what, supplier in (("this", this), ("other", other)):
            if supplier is not None and not isinstance(supplier, WindowBytesStoreSupplier):
                raise TopologyError(
                    f"StreamJoined: {what}_store_supplier must be one as Stores.in_memory_window_store(...) makes, not "
                    f"{shown_with_type(supplier)}"
                )
        if this is not None and other is not None and this.name == other.name:
            raise TopologyError(f"StreamJoined: both store suppliers have the name {this.name!r}: give each its own")

    @staticmethod
    def with_(
        key_serde: Serde[K1] | None = None,
        value_serde: Serde[V1] | None = None,
        other_value_serde: Serde[V3] | None = None,
    ) -> StreamJoined[K1, V1, V3]:
        """Returns options with serdes of the key, of the first stream's values and of the second's."""
        return StreamJoined(key_serde, value_serde, other_value_serde)

    @staticmethod
    def as_(store_name: str) -> StreamJoined[K1, V1, V3]:
        """Returns options with the name of the stores: not of the operators, which :meth:`with_name` names.

        >>> import penstock as ps
        >>> ps.StreamJoined.as_("calls").store_name
        'calls'
        """
        return StreamJoined(store_name=store_name)

    def with_key_serde(self, key_serde: Serde[K1]) -> StreamJoined[K1, V, V2]:
        """Returns a copy with another key serde."""
        return cast("StreamJoined[K1, V, V2]", retyped(self, key_serde=key_serde))

    def with_value_serde(self, value_serde: Serde[V1]) -> StreamJoined[K, V1, V2]:
        """Returns a copy with another serde of the first stream's values."""
        return cast("StreamJoined[K, V1, V2]", retyped(self, value_serde=value_serde))

    def with_other_value_serde(self, other_value_serde: Serde[V3]) -> StreamJoined[K, V, V3]:
        """Returns a copy with another serde of the second stream's values."""
        return cast("StreamJoined[K, V, V3]", retyped(self, other_value_serde=other_value_serde))

    def with_name(self, name: str) -> StreamJoined[K, V, V2]:
        """Returns a copy with a name for operators and repartition topics."""
        return replace(self, name=name)

    def with_store_name(self, store_name: str) -> StreamJoined[K, V, V2]:
        """Returns a copy with a name for the stores."""
        return replace(self, store_name=store_name)

    def with_this_store_supplier(self, supplier: WindowBytesStoreSupplier) -> StreamJoined[K, V, V2]:
        """Returns a copy with a store for the first stream's records."""
        return replace(self, this_store_supplier=supplier)

    def with_other_store_supplier(self, supplier: WindowBytesStoreSupplier) -> StreamJoined[K, V, V2]:
        """Returns a copy with a store for the second stream's records."""
        return replace(self, other_store_supplier=supplier)

    def with_logging_enabled(self, topic_config: Mapping[str, str]) -> StreamJoined[K, V, V2]:
        """Keep changelogs (the default), created with ``topic_config`` on top of the usual settings."""
        return replace(self, logging=True, topic_config=dict(topic_config))

    def with_logging_disabled(self) -> StreamJoined[K, V, V2]:
        """Keep no changelogs."""
        return replace(self, logging=False, topic_config={})
