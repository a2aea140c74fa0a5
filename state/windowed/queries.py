"""Queries of window stores and session stores, as values, and the form in which their rows are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic

from typing_extensions import TypeVar, override

from penstock.common.windows import LARGEST_TIMESTAMP, Window
from penstock.state.entries import EntryForm, StoreEntry
from penstock.state.queries import QueryRow, RowsQuery
from penstock.state.windowed.keys import KeySchema

K = TypeVar("K", default=bytes)


@dataclass(frozen=True)
class WindowKeyQuery(RowsQuery, Generic[K]):
    """The windows of ``key`` that start between the times (ms), both included, by time. KIP-796."""

    key_fields: ClassVar[tuple[str, ...]] = ("key",)
    key: K
    time_from: int
    time_to: int


@dataclass(frozen=True)
class WindowRangeQuery(RowsQuery, Generic[K]):
    """The windows of every key, or of those from ``from_key`` to ``to_key``, that start between the times (ms), all
    ends included; by serialised key, then time. Kafka Streams' (KIP-796) has no range of keys."""

    key_fields: ClassVar[tuple[str, ...]] = ("from_key", "to_key")
    time_from: int
    time_to: int
    from_key: K | None = None
    to_key: K | None = None


@dataclass(frozen=True)
class SessionQuery(RowsQuery, Generic[K]):
    """The sessions of ``key`` that end at ``earliest_end`` (ms) or later and start at ``latest_start`` or earlier, by
    end, then start. Kafka Streams: ``WindowRangeQuery.withKey``, of all times."""

    key_fields: ClassVar[tuple[str, ...]] = ("key",)
    key: K
    earliest_end: int = 0
    latest_start: int = LARGEST_TIMESTAMP


@dataclass(frozen=True)
class SessionRangeQuery(RowsQuery, Generic[K]):
    """Like :class:`SessionQuery`, of every key, or of those from ``from_key`` to ``to_key``, both included; by
    serialised key first. Kafka Streams has it only as ``findSessions``."""

    key_fields: ClassVar[tuple[str, ...]] = ("from_key", "to_key")
    earliest_end: int = 0
    latest_start: int = LARGEST_TIMESTAMP
    from_key: K | None = None
    to_key: K | None = None


@dataclass(frozen=True, slots=True)
class WindowedEntry(StoreEntry):
    """A row of a window store or a session store. ``timestamp`` is None if the store keeps none."""

    window: Window


@dataclass(frozen=True)
class WindowedForm(EntryForm):
    """Rows whose keys are windowed."""

    schema: KeySchema

    @override
    def is_row_key(self, data: bytes) -> bool:
        return len(data) >= self.schema.suffix_bytes and self.schema.time(data) >= 0

    @override
    def key(self, row_key: bytes) -> bytes:
        return row_key[: -self.schema.suffix_bytes]

    @override
    def entry(self, key: Any, row: QueryRow) -> StoreEntry:
        return WindowedEntry(key, row.value, row.timestamp, self.schema.window(row.key))
