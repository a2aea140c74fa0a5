"""Window and session stores, said before there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

from typing_extensions import override

from penstock.common.log import logger
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.builders import StoreBuilder
from penstock.state.contracts import StateStore, StateStoreContext
from penstock.state.row_formats import TIMESTAMPED_VALUE, VALUE, RowFormat
from penstock.state.session_store import SessionStateStore
from penstock.state.window_store import WindowStateStore

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class WindowStoreBuilder(StoreBuilder[K, V]):
    """A window store whose rows are value bytes. Mirrors ``WindowStoreBuilder``.

    ``retention_ms``: how long a window is kept after its start, by the store's observed stream time.
    ``window_size_ms``: from a window's start to its end, which is not stored. ``retain_duplicates``: keep each value
    that is put for a key and window, not the last alone; such a store has no caching.
    """

    kind: ClassVar[str] = "window"
    row_format: ClassVar[RowFormat] = VALUE

    retention_ms: int = 0
    window_size_ms: int = 0
    retain_duplicates: bool = False

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        return WindowStateStore(
            self.name,
            self.key_serde,
            self.value_serde,
            self.row_format,
            self.retention_ms,
            self.window_size_ms,
            self.retain_duplicates,
            context,
        )

    @override
    def changelog_config(self, additional_retention_ms: int) -> Mapping[str, str]:
        # Each duplicate has a key of its own: there is nothing to compact.
        policy = "delete" if self.retain_duplicates else "compact,delete"
        return {"cleanup.policy": policy, **_retention(self.retention_ms, additional_retention_ms)}

    @override
    def with_caching_enabled(self) -> Self:
        if self.retain_duplicates:
            logger(__name__).warning("a store that retains duplicates has no caching", store=self.name)
            return self
        return super().with_caching_enabled()


@dataclass(frozen=True)
class TimestampedWindowStoreBuilder(WindowStoreBuilder[K, V]):
    """A window store whose rows are a timestamp and value bytes; in the changelog the record has the timestamp."""

    kind: ClassVar[str] = "timestamped window"
    row_format: ClassVar[RowFormat] = TIMESTAMPED_VALUE


@dataclass(frozen=True)
class SessionStoreBuilder(StoreBuilder[K, V]):
    """A session store; rows are value bytes. Mirrors ``SessionStoreBuilder``.

    ``retention_ms``: how long a session is kept after its end, by the store's observed stream time.
    """

    kind: ClassVar[str] = "session"

    retention_ms: int = 0

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        return SessionStateStore(self.name, self.key_serde, self.value_serde, self.retention_ms, context)

    @override
    def changelog_config(self, additional_retention_ms: int) -> Mapping[str, str]:
        return {"cleanup.policy": "compact,delete", **_retention(self.retention_ms, additional_retention_ms)}


def _retention(retention_ms: int, additional_ms: int) -> Mapping[str, str]:
    return {"retention.ms": str(min(retention_ms + additional_ms, LARGEST_TIMESTAMP))}
