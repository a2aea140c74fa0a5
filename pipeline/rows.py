"""The rows that tasks yield on Spark."""

from __future__ import annotations

import pyarrow as pa

from penstock.common.records import Header, Headers

SINK, REPARTITION, CHANGELOG = "sink", "repartition", "changelog"
"""Kinds of rows that are records of a topic."""
OFFSET, READ, DROPPED = "offset", "read", "dropped"
"""Kinds of rows by which a task reports, once per source partition, what to commit (``sequence`` is the offset,
``value`` the metadata), how many records it read, and how many it dropped (``sequence`` is the number)."""
CHECKPOINT = "checkpoint"
"""The kind of a row by which a task reports that its stores are uploaded (``topic`` is the task, ``value`` its part of
a hand-over)."""
END = "end"
"""The kind of the rows that the end of a task yields about its stores (``topic`` is the store, ``partition`` the number
of the row)."""

_HEADERS = "headers array<struct<key: string, value: binary>>"
OUTPUT_SCHEMA = (
    "kind string, task int, topic string, partition int, sequence long, key binary, value binary, timestamp long, "
    + _HEADERS
    + ", due long"
)
"""``task`` is the one that wrote the row: its partition, and above 16 bits the number of its sub-topology. ``due`` is
for rows that a pass over a cycle writes for a later one: the time of the record that led to it, in the order of the
cycle, and ``sequence`` is the place of that record among those of the same time."""

_ARROW_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_RECORD = [("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64()), ("headers", _ARROW_HEADERS)]
OUTPUT_ARROW = pa.schema(
    [
        ("kind", pa.string()),
        ("task", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("sequence", pa.int64()),
        *_RECORD,
        ("due", pa.int64()),
    ]
)

WRITTEN_SCHEMA = "topic string, written long"
WRITTEN_ARROW = pa.schema([("topic", pa.string()), ("written", pa.int64())])


def headers_of(column: pa.Array) -> list[Headers | None] | None:
    """Returns the headers of each row; None if no row has any."""
    if column.null_count == len(column):
        return None
    rows = column.to_pylist()
    return [None if row is None else [(header["key"], header["value"]) for header in row] for row in rows]


def headers_row(headers: Headers | None) -> list[dict[str, str | bytes | None]] | None:
    """Returns the headers of one record as a row has them; None if it has none. The inverse of :func:`headers_of`."""
    return [_struct(header) for header in headers] if headers else None


def _struct(header: Header) -> dict[str, str | bytes | None]:
    return {"key": header[0], "value": header[1]}
