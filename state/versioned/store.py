"""Versioned key-value stores: the store of bytes that engine and operators see, and the typed one of processors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Self, TypeVar

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serdes
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.builders import StoreBuilder
from penstock.state.contracts import CommitBatch, CommittedStore, StateStore, StateStoreContext
from penstock.state.entries import EntryForm
from penstock.state.queries import Query, QueryRow, unknown_query
from penstock.state.rows.typed_keys import TypedKeys
from penstock.state.times import event_time, whole_ms
from penstock.state.versioned.latest_buffer import NOT_PUT
from penstock.state.versioned.queries import (
    MultiVersionedKeyQuery,
    VersionedKeyQuery,
    VersionForm,
    since,
    version_key,
)
from penstock.state.versioned.versions import BEHIND_ROWS, Version, Versions, key_of_row
from penstock.state.versioned.views import VersionedKeyValueStore, VersionedRecord
from penstock.state.write_buffer.buffered_store import BufferedStateStore
from penstock.state.write_buffer.write_buffer import WriteBuffer

K = TypeVar("K")
V = TypeVar("V")

_ADDITIONAL_COMPACTION_LAG_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True)
class VersionedKeyValueStoreBuilder(StoreBuilder[K, V]):
    """A versioned store. Mirrors ``VersionedKeyValueStoreBuilder``. It has no caching.

    ``history_retention_ms``: how long versions are kept after they were replaced, and how late one may come.
    ``segment_interval_ms``: versions of a key that end within such a span lie in one row.
    """

    kind: ClassVar[str] = "versioned"

    history_retention_ms: int = 0
    segment_interval_ms: int = 1

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        return VersionedStateStore(self, context)

    @property
    @override
    def entries(self) -> EntryForm:
        return VersionForm()

    @override
    def compared_rows(
        self, committed: CommittedStore, from_key: bytes | None = None, to_key: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        return committed.scan(from_key, min(BEHIND_ROWS, to_key or BEHIND_ROWS))

    @override
    def key_of_compared(self, row_key: bytes) -> bytes:
        return key_of_row(row_key)

    @property
    @override
    def layout(self) -> str:
        return f"{self.kind}, segments of {self.segment_interval_ms} ms"

    @override
    def changelog_config(self, additional_retention_ms: int) -> Mapping[str, str]:
        return {**super().changelog_config(additional_retention_ms), **self.required_changelog_config(0)}

    @override
    def required_changelog_config(self, additional_retention_ms: int) -> Mapping[str, str]:
        # Compaction keeps one version of a key: not before all others have expired.
        lag_ms = min(self.history_retention_ms + _ADDITIONAL_COMPACTION_LAG_MS, LARGEST_TIMESTAMP)
        return {"min.compaction.lag.ms": str(lag_ms)}

    @override
    def with_caching_enabled(self) -> Self:
        raise TopologyError(f"store {self.name}: versioned stores do not support caching")


class VersionedStateStore(BufferedStateStore):
    """A versioned store. Operators that know nothing of versions see the latest ones, in ``buffer``."""

    queries = (VersionedKeyQuery, MultiVersionedKeyQuery)

    def __init__(self, builder: VersionedKeyValueStoreBuilder[Any, Any], context: StateStoreContext) -> None:
        self._spans = builder.history_retention_ms, builder.segment_interval_ms
        self.versions = Versions(builder.name, builder.value_serde, *self._spans, context)
        super().__init__(builder, self.versions.latest, context)

    @override
    def view(self) -> TypedVersionedKeyValueStore:
        return TypedVersionedKeyValueStore(self.versions, self.typed_keys())

    # ---- commit and restore ----

    @property
    @override
    def has_changes(self) -> bool:
        return self.versions.has_changes

    @override
    def freeze(self) -> None:
        self.versions.freeze()

    @override
    def flush(self, batch: CommitBatch) -> Iterator[None]:
        return self.versions.flush(batch)

    @override
    def batch_written(self) -> None:
        self.versions.batch_written()

    @override
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        # The changelog is what was put, so it is put again, without decoding it; what was too late then is so now.
        context = replace(self.context, log=None, drop_record=_uncounted)
        versions = Versions(self.name, Serdes.bytes(), *self._spans, context)
        versions.restores_for(self.versions)
        versions.latest.prefetch(keys)
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            if not versions.is_too_late(timestamp):
                versions.latest.put(key, value, timestamp, None)
        for _ in versions.flush(batch):
            pass
        self.versions.take_progress_of(versions)

    @override
    def continue_from(self, stream_time: int) -> None:
        self.versions.continue_from(stream_time)

    @override
    def changelog_history(self, key: bytes) -> Sequence[tuple[bytes | None, int]]:
        return list(self.versions.committed_records(key))

    @property
    @override
    def histories_kept_from(self) -> int:
        return self.versions.kept_from

    @override
    def wiped(self) -> None:
        self.versions.forget_objects()
        self.versions.read_progress()

    # ---- queries ----

    @override
    def answer(self, query: Query, after: bytes | None, limit: int, committed: bool) -> Iterator[QueryRow]:
        match query:
            case VersionedKeyQuery(key, as_of):
                found = self.versions.peek(key, as_of, committed)
                return iter(() if found is None else (QueryRow(key, VersionedRecord(*found), found.valid_from),))
            case MultiVersionedKeyQuery(key, time_from, time_to):
                of_key = self._history(key, time_from, time_to, after, committed, query.descending)
                return islice(of_key, limit)
            case _:
                raise unknown_query(query, self.name, self.queries)

    def _history(
        self, key: bytes, time_from: int, time_to: int, after: bytes | None, committed: bool, descending: bool
    ) -> Iterator[QueryRow]:
        if after is not None and not descending:
            time_from = max(time_from, since(after) + 1)
        elif after is not None:
            time_to = min(time_to, since(after) - 1)
        for version in self.versions.peek_all(key, time_from, time_to, committed, descending):
            if after is None or descending or version.valid_from > since(after):
                yield QueryRow(version_key(key, version.valid_from), VersionedRecord(*version), version.valid_from)

    # ---- memory ----

    @property
    @override
    def misses(self) -> int:
        return self.buffer.misses + self.versions.history.misses

    @override
    def prefetch(self, keys: Sequence[bytes | None]) -> None:
        self.buffer.prefetch(keys)

    @override
    def forget_objects(self) -> None:
        self.versions.forget_objects()

    @property
    @override
    def buffers(self) -> tuple[WriteBuffer, ...]:
        return self.buffer, self.versions.history

    @override
    def dirty_cache_bytes(self) -> int:
        return self.buffer.dirty_cache_bytes() + self.versions.history.dirty_cache_bytes()


def _uncounted() -> None:
    """Does nothing: a record that came too late was counted when it came."""


class TypedVersionedKeyValueStore(VersionedKeyValueStore[Any, Any]):
    """Serialises keys."""

    def __init__(self, versions: Versions, keys: TypedKeys) -> None:
        self.name = versions.name
        self._versions = versions
        self._keys = keys

    @override
    def put(self, key: Any, value: Any, timestamp: int) -> int:
        buffer = self._versions.latest
        buffer.put(self._keys.written(key), value, self._checked(timestamp), None)
        return buffer.valid_to

    @override
    def get(self, key: Any, as_of_timestamp: int | None = None) -> VersionedRecord[Any] | None:
        data = self._keys.serialize(key)
        if as_of_timestamp is None:
            return _record(self._versions.get(data))
        return _record(self._versions.get_as_of(data, whole_ms(self.name, "as_of_timestamp", as_of_timestamp)))

    @override
    def delete(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        before = self.get(key, timestamp)
        return None if self.put(key, None, timestamp) == NOT_PUT else before

    def _checked(self, timestamp: object) -> int:
        return event_time(self.name, "a version's timestamp", timestamp)


def _record(version: Version | None) -> VersionedRecord[Any] | None:
    return None if version is None else VersionedRecord(*version)
