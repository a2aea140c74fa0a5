"""The store of ``deduplicate``: when, and by which record, each id was seen first.

It is a window store with its own builder. Its windows follow each other, each as long as the interval within
which two records are duplicates: so a window has one row of an id at most, and a look-up of an id at a time reads the
window of that time and its two neighbours. Rows expire by the segment, as in every window store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from typing_extensions import override

from penstock.common.errors import ConfigError, StateStoreError
from penstock.common.serdes import Serde, SerdePart, Serdes
from penstock.state.contracts import ChangelogRow, StateStore, StateStoreContext
from penstock.state.queries import Query, QueryRow, unknown_query
from penstock.state.rows.row_formats import Entry, EntryRow
from penstock.state.windowed.window_store import TypedWindowStore, WindowStateStore, WindowStoreBuilder

K = TypeVar("K")

_TIME_AND_OFFSET = Struct(">qq")
_KEY_LENGTH = Struct(">I")


read_time_and_offset = _TIME_AND_OFFSET.unpack_from
"""Reads (timestamp, offset) from the value of a row."""


class FirstSeen(NamedTuple):
    """The record of an id that went through: its timestamp (ms), and where it came from (``""`` and −1 if that is not
    known)."""

    timestamp: int
    offset: int
    topic: str


def pack_seen(timestamp: int, offset: int, topic: bytes) -> bytes:
    """Returns the value of a row. The buffer holds it as bytes, which cost a garbage collector nothing."""
    return _TIME_AND_OFFSET.pack(timestamp, offset) + topic


def unpack_seen(data: bytes) -> FirstSeen:
    """Returns the arguments that :meth:`pack_seen` was given."""
    timestamp, offset = _TIME_AND_OFFSET.unpack_from(data)
    return FirstSeen(timestamp, offset, data[_TIME_AND_OFFSET.size :].decode())


def key_and_id(key: bytes, id: bytes) -> bytes:
    """The bytes under which an id of a key is kept."""
    return _KEY_LENGTH.pack(len(key)) + key + id


@dataclass(frozen=True)
class DeduplicationStoreBuilder(WindowStoreBuilder[K, bytes]):
    """The store of ``deduplicate``. ``key_serde`` is that of the records' keys. ``by_id``: ids are more than the key;
    ``id_serde`` is then that of ids, and a processor finds rows under the pair (key, id)."""

    kind: ClassVar[str] = "deduplication"
    serdes_by: ClassVar[str] = "Deduplicated.as_({name!r}).with_key_serde(...).with_id_serde(...)"

    by_id: bool = False
    id_serde: Serde[Any] | None = None

    @override
    def with_known_serdes(self, known: Callable[[Serde[Any] | None, SerdePart], Serde[Any]]) -> Self:
        return replace(
            self,
            key_serde=known(self.key_serde, "key"),
            value_serde=Serdes.bytes(),
            id_serde=self._known_id_serde(known) if self.by_id else None,
        )

    def _known_id_serde(self, known: Callable[[Serde[Any] | None, SerdePart], Serde[Any]]) -> Serde[Any]:
        try:
            return known(self.id_serde, "key")
        except ConfigError:
            if self.id_serde is not None:
                raise
        raise ConfigError(
            f"deduplicate (store {self.name}): nothing says how ids are serialised: pass "
            "Deduplicated.with_id_serde(...), or set default.key.serde"
        )

    @property
    @override
    def layout(self) -> str:
        # Another interval means other windows, in which rows would not be found.
        return f"{super().layout}, windows of {self.window_size_ms} ms{', by key and id' if self.by_id else ''}"

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        kind = IdDeduplicationStateStore if self.by_id else DeduplicationStateStore
        return kind(replace(self, key_serde=self._row_serde()), context)

    def _row_serde(self) -> Serde[Any] | None:
        keys, ids = self.key_serde, self.id_serde
        if keys is None or ids is None:
            return keys
        serialize_key, serialize_id, read_key, read_id = (
            keys.serialize,
            ids.serialize,
            keys.deserialize,
            ids.deserialize,
        )

        def serialize(pair: tuple[Any, Any]) -> bytes:
            key, id = pair
            return key_and_id(serialize_key(key), serialize_id(id))

        def deserialize(data: bytes) -> tuple[Any, Any]:
            end = _KEY_LENGTH.size + _KEY_LENGTH.unpack_from(data)[0]
            return read_key(data[_KEY_LENGTH.size : end]), read_id(data[end:])

        return Serde(f"key {keys.name} and id {ids.name}", serialize, deserialize)


class DeduplicationStateStore(WindowStateStore):
    """A window store of packed rows."""

    @override
    def changelog_rows(self) -> Iterator[ChangelogRow] | None:
        return self.changelog_rows_of(self.committed_rows(), lambda _, seen: int(read_time_and_offset(seen)[0]))

    @override
    def query_row(self, row: EntryRow) -> QueryRow:
        found = super().query_row(row)
        return found._replace(value=unpack_seen(found.value))

    @override
    def view(self) -> TypedWindowStore:
        return _SeenView(self, self.typed_keys(), self.context.now)


class IdDeduplicationStateStore(DeduplicationStateStore):
    """A deduplication store by key and id. It answers no queries: its rows lie under pairs, and clients outside have
    only the serde of keys."""

    queries = ()

    @override
    def answer(self, query: Query, after: bytes | None, limit: int, committed: bool) -> Iterator[QueryRow]:
        raise unknown_query(query, self.name, self.queries)


class _SeenView(TypedWindowStore):
    """The read-only view of a processor: only ``deduplicate`` knows the form of a row."""

    @override
    def put(self, key: Any, value: Any, window_start: int) -> None:
        raise StateStoreError(f"store {self.name}: deduplicate alone writes it")

    @override
    def _value(self, entry: Entry) -> FirstSeen:
        return unpack_seen(entry[0])
