"""Store builders: descriptions of stores, with name, kind, serdes and durability, from which tasks open them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.common.records import Headers
from penstock.common.serdes import Serde, SerdePart
from penstock.state.contracts import CommittedStore, StateStore, StateStoreContext, TaskStores
from penstock.state.entries import PLAIN, EntryForm

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class StoreBuilder(ABC, Generic[K, V]):
    """A store to be built in each task that uses it. Mirrors ``StoreBuilder``. Each kind of store is a subclass.

    ``persistent``: RocksDB, else memory (restored from the changelog at each start). ``caching``: downstream and
    changelog see one update per key and commit, else each. ``logging``: True if there is a changelog topic, with
    ``topic_config`` on top of Kafka Streams' own settings. ``source_topic``: the input topic that serves as changelog
    (``reuse.ktable.source.topics``).
    """

    kind: ClassVar[str]
    """Description of the kind for people, as in "timestamped key-value"."""

    serdes_by: ClassVar[str] = "Materialized.as_({name!r}).with_key_serde(...).with_value_serde(...)"
    """The call that an error recommends to the user of a store without serdes."""

    changelog_headers: ClassVar[Headers] = ()
    """Headers of each record of its changelog, except deletions."""

    logs_headers: ClassVar[bool] = False
    """True if records that it writes to its changelog at once, and not at a commit, have the headers of the record that
    is processed."""

    name: str
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    persistent: bool = True
    caching: bool = False
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    source_topic: str | None = None

    def __post_init__(self) -> None:
        for what, serde in (("key_serde", self.key_serde), ("value_serde", self.value_serde)):
            if serde is not None and not isinstance(serde, Serde):
                raise TopologyError(
                    f"store {self.name}: {what} must be a Serde, such as Serdes.string(), not {serde!r}"
                )

    @abstractmethod
    def open(self, context: StateStoreContext) -> StateStore:
        """Returns the store of one task. Both serdes are set by then: its own, or the configuration's."""

    @property
    def brings_database(self) -> bool:
        """True if the rows of a persistent store lie in a database that :meth:`open_database` opens, not in RocksDB."""
        return False

    def open_database(self, folder: Path) -> TaskStores:
        """Open a database for the rows of this store alone, in ``folder``, which is there. Called if
        ``brings_database``. docs/STORES.md has an example."""
        raise NotImplementedError(f"the builder of store {self.name!r} brings no database")

    def with_known_serdes(self, known: Callable[[Serde[Any] | None, SerdePart], Serde[Any]]) -> Self:
        """Returns the builder with all serdes that its tasks need: ``known`` returns the configuration's in place of
        None, and binds each to the store's topic."""
        return replace(self, key_serde=known(self.key_serde, "key"), value_serde=known(self.value_serde, "value"))

    @property
    def entries(self) -> EntryForm:
        """The form in which clients outside read the rows of its answers. By default, the key of a row is the
        store's."""
        return PLAIN

    @property
    def layout(self) -> str:
        """Text that names everything on which the form of its rows depends. Rows on disk with another text are deleted
        when the store is opened, and restored from the changelog."""
        return self.kind

    def in_format(self, store_format: str) -> StoreBuilder[K, V]:
        """Returns the builder for a ``dsl.store.format``, which only stores of operators of the DSL follow."""
        return self

    def compared_rows(
        self, committed: CommittedStore, from_key: bytes | None = None, to_key: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yields the rows of ``committed``, by key, as an audit compares them, both ends included and None open.

        It leaves out what two tasks may have differently although they were given the same records: expired rows that
        are not deleted yet, indexes, and where a record came from. By default, nothing.
        """
        return committed.scan(from_key, to_key)

    def key_of_compared(self, row_key: bytes) -> bytes:
        """Returns the key in the changelog of a row that :meth:`compared_rows` yields."""
        return row_key

    @property
    def changes_by_itself(self) -> bool:
        """True if rows change without a record: no topic of records can then serve as its changelog."""
        return False

    def changelog_config(self, additional_retention_ms: int) -> Mapping[str, str]:
        """The settings that this kind needs for its changelog topic; ``topic_config`` overrides them.
        ``additional_retention_ms``: the time by which a topic keeps expiring rows longer than the store
        (``windowstore.changelog.additional.retention.ms``).
        """
        return {"cleanup.policy": "compact"}

    def required_changelog_config(self, additional_retention_ms: int) -> Mapping[str, str]:
        """The part of :meth:`changelog_config` without which the changelog would lose rows that the store still has:
        ``topic.*`` of the configuration does not override it, ``topic_config`` does."""
        return {}

    def with_caching_enabled(self) -> Self:
        """Forward one update per key and commit, downstream and to the changelog."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> Self:
        """Forward every update, downstream and to the changelog."""
        return replace(self, caching=False)

    def with_logging_enabled(self, topic_config: Mapping[str, str]) -> Self:
        """Keep a changelog topic, created with ``topic_config`` on top of the defaults."""
        return replace(self, logging=True, topic_config=dict(topic_config))

    def with_logging_disabled(self) -> Self:
        """Keep no changelog: the content is lost with its disk."""
        return replace(self, logging=False, topic_config={})


@dataclass(frozen=True)
class HeadersOption(StoreBuilder[K, V]):
    """A store that may keep ``headers`` with values. ``of_dsl``: the store is that of a DSL operator, and
    ``dsl.store.format`` decides if it keeps headers."""

    headers: bool = False
    of_dsl: bool = False

    @property
    @override
    def layout(self) -> str:
        return super().layout + (", with headers" if self.headers else "")

    @override
    def in_format(self, store_format: str) -> StoreBuilder[K, V]:
        return replace(self, headers=True) if self.of_dsl and store_format == "HEADERS" else self


# A builder of stores of any type, for code to which the types do not matter.
AnyStoreBuilder = StoreBuilder[Any, Any]


def is_restorable(store: AnyStoreBuilder) -> bool:
    """Returns True if a topic has all rows of ``store``: its changelog, or the input topic that serves as one."""
    return store.logging or store.source_topic is not None
