"""The write buffer of a store whose rows have headers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from typing_extensions import override

from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.state.contracts import StateStoreContext
from penstock.state.rows.header_rows import HeaderRows
from penstock.state.rows.row_formats import Entry, EntryRow, RowFormat
from penstock.state.write_buffer.flush_listeners import OnFlush
from penstock.state.write_buffer.write_buffer import WriteBuffer


class HeadersBuffer(WriteBuffer):
    """Each entry's headers go to its row and to the changelog; a deletion has those of the record that caused it.

    This class writes the changelog: :class:`WriteBuffer` knows of no headers, and is given no changelog.
    """

    def __init__(
        self,
        name: str,
        value_serde: Serde[Any] | None,
        row_format: RowFormat,
        context: StateStoreContext,
        front_bytes: int = 0,
    ) -> None:
        super().__init__(name, value_serde, row_format, replace(context, log=None), front_bytes)
        assert isinstance(row_format, HeaderRows)
        assert row_format.header is not None
        self._rows = row_format
        self._header_bytes = len(row_format.header(0))
        self._write = context.log_with_headers if context.log is not None else None

    @override
    def put(self, key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
        if not self.caching and self._write is not None:
            try:
                data = None if value is None else self._serialize(value)
            except Exception as error:
                raise self.refused(key, value, error) from error
            self._log_entry(key, data, timestamp, headers)
        super().put(key, value, timestamp, headers)

    @override
    def _flush_step(
        self,
        updates: list[EntryRow],
        before: dict[bytes, Entry],
        rows: dict[bytes, bytes | None],
        on_flush: OnFlush | None,
    ) -> None:
        super()._flush_step(updates, before, rows, on_flush)
        with_headers, begin = self._rows.with_headers, self._header_bytes
        for key, (_, timestamp, headers, _) in updates:
            if key not in rows:
                continue  # it came and went since the last commit
            row = rows[key]
            if row is not None and headers:
                rows[key] = with_headers(row, headers)
            if self.caching and self._write is not None:
                self._log_entry(key, None if row is None else row[begin:], timestamp, headers)

    def _log_entry(self, key: bytes, data: bytes | None, timestamp: int, headers: Headers | None) -> None:
        assert self._write is not None
        own = headers if data is None or not self._rows.of_tables else None
        self._write(key[self._front_bytes :], data, timestamp, own or None)
