"""Rows that begin with headers, byte for byte as Kafka Streams 4.3 writes them.

First comes the size of a block of headers, then the block, then the bytes of a row without headers. Numbers of the
block are zigzag varints, as in Kafka's record batches: how many headers; of each the length of its key, the key in
UTF-8, the length of its value (-1: null), the value. If there are no headers the size is 0, and there is no block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from typing_extensions import override

from penstock.common.records import NO_HEADERS, Header, Headers
from penstock.common.varints import read_varint, varint
from penstock.state.rows.row_formats import TIMESTAMPED_VALUE, VALUE, Entry, RowFormat

_NO_BLOCK = b"\0"


def header_block(headers: Headers | None) -> bytes:
    """The block of ``headers`` with its size before it."""
    if not headers:
        return _NO_BLOCK
    parts = [varint(len(headers))]
    for key, value in headers:
        name = key.encode()
        parts += (varint(len(name)), name)
        parts += (varint(-1),) if value is None else (varint(len(value)), value)
    block = b"".join(parts)
    return varint(len(block)) + block


def read_headers(row: bytes) -> tuple[Headers, int]:
    """Returns the headers that ``row`` begins with, and the position of what follows them."""
    size, at = read_varint(row, 0)
    if not size:
        return NO_HEADERS, at
    end = at + size
    count, at = read_varint(row, at)
    headers: list[Header] = []
    for _ in range(count):
        length, at = read_varint(row, at)
        key, at = row[at : at + length].decode(), at + length
        length, at = read_varint(row, at)
        value = None if length < 0 else row[at : at + length]
        at += max(length, 0)
        headers.append((key, value))
    return tuple(headers), end


class HeaderRows(RowFormat):
    """Rows of ``inner`` after headers.

    ``of_tables``: rows of the DSL's stores. Kafka Streams 4.3 writes each of these rows with no headers; in their
    changelog only deletions have the headers of the record.
    """

    def __init__(self, inner: RowFormat, *, of_tables: bool) -> None:
        self.inner = inner
        self.of_tables = of_tables
        self.has_timestamp = inner.has_timestamp
        front = inner.header
        self.header = (
            (lambda timestamp: _NO_BLOCK) if front is None else (lambda timestamp: _NO_BLOCK + front(timestamp))
        )

    def with_headers(self, row: bytes, headers: Headers | None) -> bytes:
        """Returns ``row``, which has no headers, with these; returns a row of a table as it is."""
        return row if self.of_tables or not headers else header_block(headers) + row[len(_NO_BLOCK) :]

    @override
    def value_and_timestamp(self, row: bytes) -> tuple[bytes, int]:
        return self.inner.value_and_timestamp(row[read_headers(row)[1] :])

    @override
    def decoder(self, deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Entry]:
        inner = self.inner.decoder(deserialize)

        def decode(row: bytes) -> Entry:
            headers, at = read_headers(row)
            value, timestamp, _, number = inner(row[at:])
            return value, timestamp, headers, number

        return decode

    @override
    def rows(
        self,
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None] | None = None,
    ) -> Iterator[bytes | None]:
        if headers is None:
            return super().rows(values, timestamps)
        row, with_headers = self.row, self.with_headers
        return (
            None if value is None else with_headers(row(value, timestamp), own)
            for value, timestamp, own in zip(values, timestamps, headers, strict=True)
        )


TIMESTAMPED_WITH_HEADERS = HeaderRows(TIMESTAMPED_VALUE, of_tables=False)
"""Headers, eight bytes of timestamp, the value."""
TIMESTAMPED_TABLE_WITH_HEADERS = HeaderRows(TIMESTAMPED_VALUE, of_tables=True)
"""A table's row: headers, of which there are none, eight bytes of timestamp, the value."""
VALUE_WITH_HEADERS = HeaderRows(VALUE, of_tables=False)
"""Headers and the value."""
TABLE_VALUE_WITH_HEADERS = HeaderRows(VALUE, of_tables=True)
"""A table's row: headers, of which there are none, and the value."""


def headers_format(inner: RowFormat, headers: bool, of_tables: bool) -> RowFormat:
    """Returns ``inner``, or, with ``headers``, the format whose rows have headers before it."""
    if not headers:
        return inner
    if inner.has_timestamp:
        return TIMESTAMPED_TABLE_WITH_HEADERS if of_tables else TIMESTAMPED_WITH_HEADERS
    return TABLE_VALUE_WITH_HEADERS if of_tables else VALUE_WITH_HEADERS
