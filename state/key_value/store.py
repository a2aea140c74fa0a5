"""Key-value stores: the plain kind of the Processor API, and the timestamped kind of the DSL's tables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from struct import error as StructError  # noqa: N812  # it is a class
from typing import ClassVar, Self, TypeVar

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.common.records import Headers
from penstock.common.time import Duration, to_ms
from penstock.state.builders import AnyStoreBuilder, HeadersOption, StoreBuilder
from penstock.state.contracts import ChangelogRow, CommitBatch, CommittedStore, StateStore, StateStoreContext
from penstock.state.key_value.typed_store import TypedKeyValueStore, TypedKeyValueStoreWithHeaders
from penstock.state.queries import (
    CountQuery,
    KeyQuery,
    KeysQuery,
    PrefixQuery,
    Query,
    QueryRow,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    end_of_prefix,
    unknown_query,
)
from penstock.state.rows.header_rows import HeaderRows, headers_format
from penstock.state.rows.row_formats import TIMESTAMPED_VALUE, VALUE, EntryRow, RowFormat
from penstock.state.with_headers.buffer import HeadersBuffer
from penstock.state.write_buffer.buffered_store import BufferedStateStore, looked_up
from penstock.state.write_buffer.write_buffer import WriteBuffer

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class KeyValueStoreBuilder(StoreBuilder[K, V]):
    """Rows are value bytes. Processor API."""

    kind: ClassVar[str] = "key-value"

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        return KeyValueStateStore(self, VALUE, context)


@dataclass(frozen=True)
class TimestampedKeyValueStoreBuilder(HeadersOption[K, V]):
    """Rows are a timestamp and value bytes; the changelog has the timestamp as its record's. Tables of the DSL.

    With ``headers``, rows begin with the headers; in the changelog they are the record's.
    """

    kind: ClassVar[str] = "timestamped key-value"

    ttl_ms: int | None = None
    """Time after its last update for which a row is kept; None: forever."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ttl_ms is not None and self.ttl_ms < 1:
            raise TopologyError(f"store {self.name}: a TTL must be 1 ms at least, not {self.ttl_ms} ms")
        if self.ttl_ms is not None and self.headers:
            raise TopologyError(
                f"store {self.name}: one with a TTL cannot keep headers. Leave out with_ttl(), or take a store without "
                "headers (of an operator: dsl.store.format=DEFAULT)"
            )

    @property
    @override
    def layout(self) -> str:
        return super().layout if self.ttl_ms is None else f"{self.kind}, with a TTL"

    @property
    @override
    def changes_by_itself(self) -> bool:
        return self.ttl_ms is not None

    def with_ttl(self, ttl: Duration) -> Self:
        """Rows expire ``ttl`` after their last update in event time, when the task's stream time gets there: they are
        deleted, also in the changelog. A put with a timestamp that old is dropped and counted. Kafka Streams has no TTL
        (KIP-1225). Raises TopologyError for a TTL below 1 ms."""
        return replace(self, ttl_ms=to_ms(ttl, f"store {self.name}: ttl"))

    @override
    def compared_rows(
        self, committed: CommittedStore, from_key: bytes | None = None, to_key: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        rows = super().compared_rows(committed, from_key, to_key)
        if self.ttl_ms is None:
            return rows
        from penstock.state.key_value.ttl_store import TtlStateStore  # which is made of this file's

        # When a key is looked at again depends on restarts: an index notes the time of the update it has seen.
        return (row for row in rows if not TtlStateStore.is_of_index(row[0]))

    @override
    def key_of_compared(self, row_key: bytes) -> bytes:
        return row_key if self.ttl_ms is None else row_key[1:]

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        if self.ttl_ms is not None:
            from penstock.state.key_value.ttl_store import TtlStateStore  # which is made of this file's

            return TtlStateStore(self, self.ttl_ms, context)
        return KeyValueStateStore(self, headers_format(TIMESTAMPED_VALUE, self.headers, self.of_dsl), context)


@dataclass(frozen=True)
class SubscriptionStoreBuilder(TimestampedKeyValueStoreBuilder[bytes, bytes]):
    """Builds the store of the subscriptions of a foreign-key join. Like Kafka Streams' since 4.3, it has headers in its
    changelog, whatever ``dsl.store.format`` is."""

    logs_headers: ClassVar[bool] = True

    @override
    def compared_rows(
        self, committed: CommittedStore, from_key: bytes | None = None, to_key: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        # The second byte of a subscription is the instruction: if the other table must respond. It depends on the
        # updates that a cache in front of the join has merged, and nothing reads it again.
        form = headers_format(TIMESTAMPED_VALUE, self.headers, self.of_dsl)
        for key, row in super().compared_rows(committed, from_key, to_key):
            yield key, _without_instruction(form, row)


def _without_instruction(form: RowFormat, row: bytes) -> bytes:
    """Returns the row of a subscription with 0 as its instruction. A damaged row is returned unchanged."""
    try:
        value = form.value_and_timestamp(row)[0]
    except (IndexError, StructError):
        return row
    instruction = len(row) - len(value) + 1
    return row if len(value) < 2 else row[:instruction] + b"\0" + row[instruction + 1 :]


class KeyValueStateStore(BufferedStateStore):
    """A key-value store of either kind. Its rows have the keys of its changelog."""

    queries = (KeyQuery, KeysQuery, RangeQuery, PrefixQuery, CountQuery)
    restores_blindly: ClassVar[bool] = True

    def __init__(
        self,
        builder: AnyStoreBuilder,
        row_format: RowFormat,
        context: StateStoreContext,
        buffer: WriteBuffer | None = None,
    ) -> None:
        kind = HeadersBuffer if isinstance(row_format, HeaderRows) else WriteBuffer
        buffer = buffer or kind(builder.name, builder.value_serde, row_format, context)
        buffer.allow_bytes()
        super().__init__(builder, buffer, context)

    @override
    def view(self) -> TypedKeyValueStore:
        if isinstance(self.row_format, HeaderRows):
            return TypedKeyValueStoreWithHeaders(self.buffer, self.typed_keys(), self.context)
        return TypedKeyValueStore(self.buffer, self.typed_keys(), self.context.now)

    @override
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        self._restore(batch, keys, self.row_format.rows(values, timestamps))

    @override
    def restore_with_headers(
        self,
        batch: CommitBatch,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None],
    ) -> None:
        if isinstance(self.row_format, HeaderRows):
            self._restore(batch, keys, self.row_format.rows(values, timestamps, headers))
        else:
            self.restore(batch, keys, values, timestamps)

    @override
    def changelog_rows(self) -> Iterator[ChangelogRow] | None:
        return self.changelog_rows_of(self.buffer.committed.scan(None, None))

    def _restore(self, batch: CommitBatch, keys: Sequence[bytes], rows: Iterator[bytes | None]) -> None:
        self.buffer.forget_objects()  # rows that were read before are read again
        for _ in batch.put_all(self.name, dict(zip(keys, rows, strict=True))):
            pass

    @override
    def answer(self, query: Query, after: bytes | None, limit: int, committed: bool) -> Iterator[QueryRow]:
        match query:
            case TimestampedKeyQuery() | TimestampedRangeQuery() if not self.row_format.has_timestamp:
                raise unknown_query(query, self.name, self.queries)
            case KeyQuery(key):
                entry = looked_up(self.buffer, key, committed)
                return iter(() if entry is None else (self.query_row((key, entry)),))
            case KeysQuery(keys):
                rest = keys if after is None else keys[bisect_right(keys, after) :]
                return map(self.query_row, islice(self._look_up_all(rest, committed), limit))
            case RangeQuery(from_key, to_key):
                entries = self._scan(from_key, to_key, after, limit, committed, query.descending)
                return map(self.query_row, islice(entries, limit))
            case PrefixQuery(prefix):
                # One row more: after the prefix there may be a key that does not begin with it.
                found = self._scan(prefix, end_of_prefix(prefix), after, limit + 1, committed, query.descending)
                return map(self.query_row, islice((row for row in found if row[0].startswith(prefix)), limit))
            case CountQuery():
                counted = self.buffer.committed if committed else self.buffer
                return iter((QueryRow(b"", counted.approximate_num_entries(), None),))
            case _:
                raise unknown_query(query, self.name, self.queries)

    def _scan(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        after: bytes | None,
        limit: int,
        committed: bool,
        descending: bool,
    ) -> Iterator[EntryRow]:
        """Returns the entries of the range after the key ``after``, which may lie outside of the range."""
        if not descending:
            first = from_key if after is None else max(from_key or b"", after + b"\x00")
            return self.buffer.scan(first, to_key, committed=committed, limit=limit)
        if after is None:
            return self.buffer.scan(from_key, to_key, reverse=True, committed=committed, limit=limit)
        last = after if to_key is None else min(to_key, after)
        rows = self.buffer.scan(from_key, last, reverse=True, committed=committed, limit=limit + 1)
        return (row for row in rows if row[0] < after)

    def _look_up_all(self, keys: Sequence[bytes], committed: bool) -> Iterator[EntryRow]:
        """Like :func:`looked_up`, for several keys, which are read from disk at once."""
        known = {} if committed else {key: entry for key in keys if (entry := self.buffer.peek(key)) is not None}
        others = [key for key in keys if key not in known]
        rows = zip(others, self.buffer.committed.get_many(others), strict=True)
        known.update((key, self.buffer.decode(row)) for key, row in rows if row is not None)
        return ((key, entry) for key in keys if (entry := known.get(key)) is not None and entry[0] is not None)

    @property
    @override
    def misses(self) -> int:
        return self.buffer.misses

    @override
    def prefetch(self, keys: Sequence[bytes | None]) -> None:
        self.buffer.prefetch(keys)
