"""The base of window stores and session stores, as the engine sees them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.common.windows import LARGEST_TIMESTAMP, Windowed
from penstock.state.builders import StoreBuilder
from penstock.state.contracts import CommitBatch, StateStoreContext
from penstock.state.rows.header_rows import HeaderRows
from penstock.state.rows.row_formats import Entry, RowFormat
from penstock.state.windowed.expiring_rows import ExpiringRows
from penstock.state.windowed.keys import KeySchema, changelog_key
from penstock.state.windowed.segments import Segments, pack_segment
from penstock.state.write_buffer.buffered_store import BufferedStateStore
from penstock.state.write_buffer.write_buffer import WriteBuffer

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class ExpiringStoreBuilder(StoreBuilder[K, V]):
    """A window store or a session store. ``retention_ms``: the stream time (ms) for which rows are kept.
    ``by_time``: operators read its rows by time, as they do if windows are emitted on close. ``time_ordered``: it then
    replaces the store that Kafka Streams has for that, whose rows lie in this order themselves."""

    retention_ms: int = 0
    by_time: bool = False
    time_ordered: bool = False

    @property
    def segments(self) -> Segments:
        """The segments in which its rows lie."""
        return Segments(self.retention_ms)

    @abstractmethod
    def windowed_key_serde(self, key_serde: Serde[K]) -> Serde[Windowed[K]]:
        """Returns the serde that writes its windowed keys to topics; ``key_serde`` writes the keys in them."""

    @property
    @override
    def layout(self) -> str:
        by_time = ", also by time" if self.by_time else ""
        return f"{self.kind}, segments of {self.segments.interval_ms} ms{by_time}"

    @override
    def changelog_config(self, additional_retention_ms: int) -> Mapping[str, str]:
        return {"cleanup.policy": "compact,delete", **self.required_changelog_config(additional_retention_ms)}

    @override
    def required_changelog_config(self, additional_retention_ms: int) -> Mapping[str, str]:
        return {"retention.ms": str(min(self.retention_ms + additional_retention_ms, LARGEST_TIMESTAMP))}


class ExpiringStateStore(BufferedStateStore):
    """A store whose content is ``rows``."""

    restores_blindly: ClassVar[bool] = True

    def __init__(
        self,
        builder: ExpiringStoreBuilder[Any, Any],
        row_format: RowFormat,
        schema: KeySchema,
        context: StateStoreContext,
        buffer_kind: type[WriteBuffer] = WriteBuffer,
    ) -> None:
        name, value_serde, segments = builder.name, builder.value_serde, builder.segments
        self.rows = ExpiringRows(name, value_serde, row_format, schema, segments, builder.by_time, context, buffer_kind)
        super().__init__(builder, self.rows.buffer, context)
        self.buffer.show_key = self._shown

    def _shown(self, row_key: bytes) -> str:
        key: object = self.rows.key(row_key)
        with suppress(Exception):  # a serde may raise anything: then the bytes are shown
            key = self._key_serde.deserialize(self.rows.key(row_key))
        return str(Windowed(key, self.rows.schema.window(row_key)))

    @abstractmethod
    def entry(self, windowed: Windowed[bytes]) -> Entry | None:
        """Returns the entry of this very windowed key, for a look-up in the table; None if there is none or it has
        expired (see :meth:`ExpiringRows.shows_a_table`)."""

    @override
    def freeze(self) -> None:
        self.rows.freeze()

    @override
    def flush(self, batch: CommitBatch) -> Iterator[None]:
        return self.rows.flush(batch)

    @override
    def batch_written(self) -> None:
        self.rows.batch_written()

    @override
    def wiped(self) -> None:
        self.rows.wiped()

    @override
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        self.rows.restore(batch, keys, values, timestamps)

    @override
    def continue_from(self, stream_time: int) -> None:
        self.rows.continue_from(stream_time)

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
            self.rows.restore(batch, keys, values, timestamps, headers)
        else:
            self.restore(batch, keys, values, timestamps)

    # ---- memory ----

    @property
    @override
    def buffers(self) -> tuple[WriteBuffer, ...]:
        order = self.rows.time_order
        return (self.buffer,) if order is None else (self.buffer, order.buffer)

    @override
    def forget_objects(self) -> None:
        self.rows.forget_objects()

    @override
    def changelog_record(self, key: bytes) -> tuple[bytes | None, int]:
        value, timestamp = super().changelog_record(key)
        if value is not None and not self.row_format.has_timestamp:
            # The topic deletes what is old: by the time of the window, if nothing better is known.
            timestamp = self.rows.schema.time(key)
        return value, timestamp

    def committed_rows(self) -> Iterator[tuple[bytes, bytes]]:
        """The committed rows of windowed keys, by segment and key."""
        last = self.rows.segments.of(max(self.rows.stream_time, 0))
        return self.buffer.committed.scan(pack_segment(0), pack_segment(last + 1))

    @override
    def row_key(self, changelog_key: bytes) -> bytes:
        rows = self.rows
        return pack_segment(rows.segments.of(rows.schema.time(changelog_key))) + changelog_key

    @override
    def changelog_key(self, row_key: bytes) -> bytes:
        return changelog_key(row_key)
