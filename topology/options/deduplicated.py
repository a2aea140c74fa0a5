"""``Deduplicated``: the options of ``deduplicate`` and of its store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar, cast

from penstock.common.serdes import Serde
from penstock.common.time import Duration, to_ms
from penstock.topology.options.checks import check_name, check_serdes, retyped
from penstock.topology.options.materialized import StoreType, checked_store_type

K = TypeVar("K")
V = TypeVar("V")
I = TypeVar("I")  # noqa: E741  # an id
# Factories have type variables of their own: pyright does not infer those of a class in its static methods.
K1 = TypeVar("K1")
V1 = TypeVar("V1")
I1 = TypeVar("I1")


@dataclass(frozen=True)
class Deduplicated(Generic[K, V, I]):
    """Options of ``deduplicate``. Mirrors ``Deduplicated`` of KIP-655.

    ``key_serde`` and ``value_serde`` are the stream's (the second is for the repartition topic alone, if there is one),
    ``id_serde`` that of ids. ``name`` names the operator and the repartition topic, ``store_name`` the store and its
    changelog, ``<application.id>-<store name>-changelog``; neither name sets the other. ``retention_ms``: the stream
    time for which records are remembered; None is twice the interval. ``logging``: True if there is a changelog,
    created with ``topic_config`` on top of the usual settings of a window store; without one, what was seen is lost
    with its disk.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    id_serde: Serde[I] | None = None
    name: str | None = None
    store_name: str | None = None
    retention_ms: int | None = None
    store_type: StoreType = StoreType.ROCKS_DB
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_serdes(self, "key_serde", "value_serde", "id_serde")
        checked_store_type(self.store_type, "Deduplicated")
        check_name(self.name)
        check_name(self.store_name, "store name")

    @staticmethod
    def with_(
        key_serde: Serde[K1] | None = None, value_serde: Serde[V1] | None = None, id_serde: Serde[I1] | None = None
    ) -> Deduplicated[K1, V1, I1]:
        """Returns options with serdes of keys, values and ids."""
        return Deduplicated(key_serde, value_serde, id_serde)

    @staticmethod
    def as_(store_name: str) -> Deduplicated[K1, V1, I1]:
        """Returns options with the name of the store: not of the operator, which :meth:`with_name` names.

        >>> import penstock as ps
        >>> ps.Deduplicated.as_("seen").store_name
        'seen'
        """
        return Deduplicated(store_name=store_name)

    def with_key_serde(self, key_serde: Serde[K1]) -> Deduplicated[K1, V, I]:
        """Returns a copy with another key serde."""
        return cast("Deduplicated[K1, V, I]", retyped(self, key_serde=key_serde))

    def with_value_serde(self, value_serde: Serde[V1]) -> Deduplicated[K, V1, I]:
        """Returns a copy with another value serde."""
        return cast("Deduplicated[K, V1, I]", retyped(self, value_serde=value_serde))

    def with_id_serde(self, id_serde: Serde[I1]) -> Deduplicated[K, V, I1]:
        """Returns a copy with another serde of ids."""
        return cast("Deduplicated[K, V, I1]", retyped(self, id_serde=id_serde))

    def with_name(self, name: str) -> Deduplicated[K, V, I]:
        """Returns a copy with a name for the operator and the repartition topic."""
        return replace(self, name=name)

    def with_store_name(self, store_name: str) -> Deduplicated[K, V, I]:
        """Returns a copy with a name for the store."""
        return replace(self, store_name=store_name)

    def with_retention(self, retention: Duration) -> Deduplicated[K, V, I]:
        """Remember records for ``retention``, by stream time; it may not be shorter than the interval. Raises
        ValueError for a negative one."""
        return replace(self, retention_ms=to_ms(retention, "Deduplicated: retention"))

    def with_store_type(self, store_type: StoreType) -> Deduplicated[K, V, I]:
        """Keep the store on disk or in memory."""
        return replace(self, store_type=store_type)

    def with_logging_enabled(self, topic_config: Mapping[str, str]) -> Deduplicated[K, V, I]:
        """Keep a changelog (the default), created with ``topic_config`` on top of the usual settings."""
        return replace(self, logging=True, topic_config=dict(topic_config))

    def with_logging_disabled(self) -> Deduplicated[K, V, I]:
        """Keep no changelog."""
        return replace(self, logging=False, topic_config={})
