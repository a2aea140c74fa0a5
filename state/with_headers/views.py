"""Stores that keep headers as a processor sees them: it puts and gets values with their headers."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar, override

from penstock.common.records import NO_HEADERS, Headers
from penstock.state.contracts import StateStoreContext
from penstock.state.rows.header_rows import HeaderRows
from penstock.state.rows.row_formats import Entry, RowFormat
from penstock.state.times import event_time

T = TypeVar("T", default=Any)

_Taken = tuple[Any, int, "Headers | None"]
"""(value, timestamp, headers): as a write buffer takes them."""


class ValueTimestampHeaders(NamedTuple, Generic[T]):
    """A value of a store that keeps headers, with its event time (ms) and headers. Mirrors ``ValueTimestampHeaders``
    (KIP-1271)."""

    value: T
    timestamp: int
    headers: Headers = NO_HEADERS


class AggregationWithHeaders(NamedTuple, Generic[T]):
    """A value of a session store that keeps headers. Mirrors ``AggregationWithHeaders`` (KIP-1271)."""

    aggregation: T
    headers: Headers = NO_HEADERS


class ValueConverter:
    """Converts the values of one store from and to those that a processor sees.

    As in Kafka Streams, a deletion has the time and headers of the record that is processed: the changelog gets them.
    """

    def __init__(self, store: str, row_format: RowFormat, context: StateStoreContext) -> None:
        self._store = store
        self._of_tables = isinstance(row_format, HeaderRows) and row_format.of_tables
        self._now, self._headers = context.now, context.headers

    def taken(self, value: Any) -> _Taken:
        """Takes ``value`` apart. Raises TypeError for what is no :class:`ValueTimestampHeaders` with a whole number of
        ms, nor None; ValueError for a time that is negative or has more than 63 bits."""
        if value is None:
            return self._deletion()
        if not isinstance(value, ValueTimestampHeaders):
            raise self._refused(value, "ValueTimestampHeaders(value, timestamp, headers)")
        if value.value is None:
            return self._deletion()
        timestamp = event_time(self._store, "a timestamp", value.timestamp)
        return value.value, timestamp, self._checked(value.headers)

    def given(self, entry: Entry) -> Any:
        """Returns ``entry`` as a processor gets it."""
        return ValueTimestampHeaders(entry[0], entry[1], self._of(entry))

    def _of(self, entry: Entry) -> Headers:
        # The entry of a table that waits for its flush has those of the record: for downstream, not for the row.
        return NO_HEADERS if self._of_tables else entry[2] or NO_HEADERS

    def _deletion(self) -> _Taken:
        return None, self._now(), self._headers()

    def _refused(self, value: object, wanted: str) -> TypeError:
        return TypeError(f"store {self._store} keeps headers: put {wanted}, not {value!r} ({type(value).__name__})")

    def _checked(self, headers: Headers) -> Headers:
        kept = tuple(headers)
        for header in kept:
            match header:
                case (str(), bytes() | None):
                    pass
                case _:
                    raise TypeError(
                        f"store {self._store}: a header is (key, value), a str and bytes or None, not {header!r}"
                    )
        return kept


class AggregationConverter(ValueConverter):
    """Converts the values of a session store, whose rows have no timestamp."""

    @override
    def taken(self, value: Any) -> _Taken:
        """Takes ``value`` apart. Raises TypeError for what is no :class:`AggregationWithHeaders`, nor None."""
        if value is None:
            return self._deletion()
        if not isinstance(value, AggregationWithHeaders):
            raise self._refused(value, "AggregationWithHeaders(aggregation, headers)")
        if value.aggregation is None:
            return self._deletion()
        return value.aggregation, self._now(), self._checked(value.headers)

    @override
    def given(self, entry: Entry) -> Any:
        return AggregationWithHeaders(entry[0], self._of(entry))
