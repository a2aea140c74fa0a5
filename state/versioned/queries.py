"""Queries of versioned stores, as values, and the form in which their rows are shown."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, ClassVar, Generic

from typing_extensions import TypeVar, override

from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.entries import EntryForm, StoreEntry
from penstock.state.queries import Query, QueryRow, RowsQuery

K = TypeVar("K", default=bytes)

_SINCE = Struct(">q")


@dataclass(frozen=True)
class VersionedKeyQuery(Query, Generic[K]):
    """The latest version of ``key``, or the one that was valid at the timestamp ``as_of`` (ms): a
    :class:`~penstock.state.versioned.views.VersionedRecord`. KIP-960."""

    key_fields: ClassVar[tuple[str, ...]] = ("key",)
    key: K
    as_of: int | None = None


@dataclass(frozen=True)
class MultiVersionedKeyQuery(RowsQuery, Generic[K]):
    """The versions of ``key`` that were valid at any time between the two (ms), both included, by time. KIP-968."""

    key_fields: ClassVar[tuple[str, ...]] = ("key",)
    key: K
    time_from: int = 0
    time_to: int = LARGEST_TIMESTAMP


@dataclass(frozen=True, slots=True)
class VersionEntry(StoreEntry):
    """A version of a key: valid from ``timestamp`` until ``valid_to`` (ms), which is None for the latest."""

    valid_to: int | None


@dataclass(frozen=True)
class VersionForm(EntryForm):
    """Rows whose keys end with the time from which the version is valid: see :func:`version_key`."""

    @override
    def is_row_key(self, data: bytes) -> bool:
        return len(data) >= _SINCE.size and since(data) >= 0

    @override
    def key(self, row_key: bytes) -> bytes:
        return row_key[: -_SINCE.size]

    @override
    def entry(self, key: Any, row: QueryRow) -> StoreEntry:
        value, timestamp, valid_to = row.value
        return VersionEntry(key, value, timestamp, valid_to)


def version_key(key: bytes, since: int) -> bytes:
    """The key of the row of a version that is valid from ``since`` on."""
    return key + _SINCE.pack(since)


def since(row_key: bytes) -> int:
    """Returns the time from which the version in the row with this key is valid."""
    time: int = _SINCE.unpack_from(row_key, len(row_key) - _SINCE.size)[0]
    return time
