"""Row formats: the bytes of a value and its timestamp in a row. No other module knows them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any

from typing_extensions import override

from penstock.common.records import Headers

Entry = tuple[Any, int, Headers | None, int]
"""(value, timestamp, headers of the update, its number). A value of None is a deletion, or a key known to be absent."""

EntryRow = tuple[bytes, Entry]
"""A row's key and its entry."""

UNCHANGEABLE = frozenset({int, str, bytes, float, bool, type(None)})
"""Types whose values cannot be changed in place."""

NO_TIMESTAMP = -1
"""The timestamp of an entry that was read from a row without one."""

_TIME = Struct(">q")
_read_time = _TIME.unpack_from


class RowFormat(ABC):
    """Rows of one form. ``header`` makes the bytes before the value from the timestamp; None if there are none."""

    has_timestamp: bool
    header: Callable[[int], bytes] | None

    def row(self, value: bytes, timestamp: int) -> bytes:
        """The row of a serialised value."""
        return value if self.header is None else self.header(timestamp) + value

    @abstractmethod
    def value_and_timestamp(self, row: bytes) -> tuple[bytes, int]:
        """Returns the value and timestamp that :meth:`row` was given; NO_TIMESTAMP if the row has none."""

    def rows(
        self,
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None] | None = None,
    ) -> Iterator[bytes | None]:
        """The rows of records of a changelog, None for a deletion. ``headers`` is None if no record has any."""
        row = self.row
        return (
            None if value is None else row(value, timestamp)
            for value, timestamp in zip(values, timestamps, strict=True)
        )

    @abstractmethod
    def decoder(self, deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Entry]:
        """A function that makes entries of rows. It runs for each row that is read: a closure of its own is fastest."""


class _ValueRows(RowFormat):
    has_timestamp = False
    header = None

    @override
    def value_and_timestamp(self, row: bytes) -> tuple[bytes, int]:
        return row, NO_TIMESTAMP

    @override
    def rows(
        self,
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None] | None = None,
    ) -> Iterator[bytes | None]:
        return iter(values)

    @override
    def decoder(self, deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Entry]:
        def decode(row: bytes) -> Entry:
            return deserialize(row), NO_TIMESTAMP, None, 0

        return decode


class _TimestampedRows(RowFormat):
    has_timestamp = True
    header = staticmethod(_TIME.pack)

    @override
    def value_and_timestamp(self, row: bytes) -> tuple[bytes, int]:
        return row[8:], _read_time(row)[0]

    @override
    def rows(
        self,
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None] | None = None,
    ) -> Iterator[bytes | None]:
        pack = _TIME.pack
        # For each record of a restore: two calls less than by row().
        return iter([None if at is None else pack(time) + at for at, time in zip(values, timestamps, strict=True)])

    @override
    def decoder(self, deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Entry]:
        def decode(row: bytes) -> Entry:
            return deserialize(row[8:]), _read_time(row)[0], None, 0

        return decode


VALUE: RowFormat = _ValueRows()
"""Value bytes and nothing else."""
TIMESTAMPED_VALUE: RowFormat = _TimestampedRows()
"""Eight bytes of timestamp (big endian, signed), then the value."""
