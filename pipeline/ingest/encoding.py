"""Turns rows into records: the columns of a mapping, through its serdes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from penstock.common.errors import RetriableError, SerializationError
from penstock.common.murmur2 import partition_for
from penstock.common.plain_json import write_json
from penstock.common.records import SENT_NOW, Headers
from penstock.common.serdes import Serde, SerdePart, bound
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.pipeline.ingest.contracts import Rows
from penstock.pipeline.ingest.mapping import RecordMapping

_WHOLE_NUMBERS = ("short", "integer", "long")
_OF_TYPES = ("avro(", "json_schema(", "protobuf(")
_RUN_OF_KEYLESS = 256
"""Number of consecutive rows without a key that go to one partition, before the next gets as many."""

_SHOWN = 80
"""Most characters of a value that a message shows."""
_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)

Encode = Callable[[Any], bytes]


@dataclass(frozen=True)
class Encoded:
    """The records of some rows, as columns; what stands at the index of a refused row has no meaning."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Headers | None]
    partitions: Sequence[int]


class Encoder:
    """Encodes rows after a mapping."""

    def __init__(self, mapping: RecordMapping) -> None:
        """Raises ConfigError for a serde that cannot be bound to the topic."""
        self._mapping = mapping
        self._key = encode_with(mapping.key_serde, mapping.topic, "key")
        self._value = encode_with(mapping.value_serde, mapping.topic, "value")

    def encode(self, rows: Rows) -> Encoded:
        """Returns the records of ``rows``; rows that are none are noted in ``rows.refused``, with the reason."""
        mapping = self._mapping
        key_objects: Sequence[Any] = [None] * len(rows)
        if mapping.key_column is not None:
            key_objects = _objects(rows, mapping.key_column, mapping.key_serde)
        if mapping.value_column is None:
            value_objects = rows.objects(mapping.value_columns)
        else:
            value_objects = _objects(rows, mapping.value_column, mapping.value_serde)
        timestamps: Sequence[int] = [SENT_NOW] * len(rows)
        if mapping.timestamp_column is not None:
            timestamps = _timestamps(rows, mapping.timestamp_column)
        headers = self._headers(rows)
        keys = _encoded(rows, key_objects, self._key, "key")
        values = _encoded(rows, value_objects, self._value, "value")
        return Encoded(keys, values, timestamps, headers, self._partitions(rows, keys, key_objects, value_objects))

    def _headers(self, rows: Rows) -> Sequence[Headers | None]:
        if not self._mapping.headers:
            return [None] * len(rows)
        columns = []
        for name, column in self._mapping.headers:
            values = _encoded(rows, rows.content(column), _bytes_of, f"header {name!r}")
            columns.append([None if value is None else (name, value) for value in values])
        return [[header for header in row if header is not None] or None for row in zip(*columns, strict=True)]

    def _partitions(
        self, rows: Rows, keys: Sequence[bytes | None], key_objects: Sequence[Any], value_objects: Sequence[Any]
    ) -> Sequence[int]:
        mapping, count = self._mapping, self._mapping.partitions
        first = rows.first
        default = [
            partition_for(key, count) if key is not None else (first + index) // _RUN_OF_KEYLESS % count
            for index, key in enumerate(keys)
        ]
        if mapping.partition_column is not None:
            given: Sequence[Any] = rows.plain(mapping.partition_column)
        elif mapping.partitioner is not None:
            given = [
                self._chosen(rows, index, key, value)
                for index, (key, value) in enumerate(zip(key_objects, value_objects, strict=True))
            ]
        else:
            return default
        for index, partition in enumerate(given):
            if partition is None or index in rows.refused:
                continue
            if type(partition) is str and partition.isdecimal():
                partition = int(partition)
            if type(partition) is int and 0 <= partition < count:
                default[index] = partition
            else:
                rows.refused[index] = f"topic {mapping.topic!r} has partitions 0 to {count - 1}, not {partition!r}"
        return default

    def _chosen(self, rows: Rows, index: int, key: Any, value: Any) -> int | None:
        assert self._mapping.partitioner is not None
        if index in rows.refused:
            return None
        try:
            return self._mapping.partitioner(self._mapping.topic, key, value, self._mapping.partitions)
        except Exception as error:  # a user's function
            rows.refused[index] = f"the partitioner raised {type(error).__name__}: {error}"
            return None


def _is_plain(serde: Serde[Any]) -> bool:
    return serde.name in ("string", "json") or serde.name.startswith("json(")


def _objects(rows: Rows, column: str, serde: Serde[Any]) -> Sequence[Any]:
    return rows.plain(column) if _is_plain(serde) else rows.values(column)


def _encoded(rows: Rows, objects: Sequence[Any], encode: Encode, part: str) -> Sequence[bytes | None]:
    try:
        return [None if each is None else encode(each) for each in objects]
    except Exception:  # whatever a serde raises: which rows are at fault is found below
        return [
            None if each is None or index in rows.refused else _encoded_one(rows, index, each, encode, part)
            for index, each in enumerate(objects)
        ]


def _encoded_one(rows: Rows, index: int, value: Any, encode: Encode, part: str) -> bytes | None:
    try:
        return encode(value)
    except RetriableError:  # of a schema registry: no row is at fault
        raise
    except Exception as error:  # whatever a serde raises
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
        rows.refused[index] = f"its {part} {shown} cannot be encoded: {error}"
        return None


def encode_with(serde: Serde[Any], topic: str, part: SerdePart) -> Encode:
    """Returns the function that encodes the objects of rows by ``serde``. Text that a serde of another type gets is
    read as on the command line. Raises ConfigError for a serde that cannot be bound."""
    own = bound(serde, topic, part)
    serialize, from_text = own.serialize, own.from_text
    if own.name == "string":
        return lambda value: value.encode() if type(value) is str else write_json(value)
    if own.name == "bytes":
        return lambda value: value.encode() if type(value) is str else serialize(value)
    if own.name == "json" or from_text is None:
        return serialize
    if own.name.startswith("json("):  # the object is read from the plain value
        return lambda value: serialize(from_text(write_json(value).decode()))
    if own.name in _WHOLE_NUMBERS:
        return lambda value: serialize(from_text(value) if type(value) is str else _whole(value))
    if own.name.startswith(_OF_TYPES):
        return _of_type(serialize, from_text)
    return lambda value: serialize(from_text(value) if type(value) is str else value)


def _of_type(serialize: Encode, from_text: Callable[[str], Any]) -> Encode:
    """A serde of a type takes objects of the type; one of a schema takes the row's own."""

    def encode(value: Any) -> bytes:
        if not isinstance(value, dict | list):
            return serialize(from_text(value) if type(value) is str else value)
        try:
            return serialize(value)
        except SerializationError:
            return serialize(from_text(msgspec.json.encode(value).decode()))

    return encode


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"a whole number expected, not {type(value).__name__}")
    return value


def _bytes_of(value: Any) -> bytes:
    if type(value) is str:
        return value.encode()
    return value if type(value) is bytes else write_json(value)


def _timestamps(rows: Rows, column: str) -> Sequence[int]:
    given = rows.timestamps(column)
    made = []
    for index, value in enumerate(given):
        if type(value) is int and 0 <= value <= LARGEST_TIMESTAMP:
            made.append(value)
            continue
        made.append(0)
        if index not in rows.refused:
            try:
                made[-1] = _event_time(value)
            except ValueError as error:
                rows.refused[index] = f"column {column!r} has no timestamp: {error}"
    return made


def _event_time(value: Any) -> int:
    """Returns the ms since the epoch of a text: a number of ms, or ISO 8601, without a zone in UTC."""
    if type(value) is str and value.lstrip("-").isdecimal():
        made = int(value)
    elif type(value) is str:
        moment = datetime.fromisoformat(value)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        made = (moment - _EPOCH) // _MS
    elif type(value) is int:
        made = value
    else:
        raise ValueError("it is null" if value is None else f"{value!r} is neither a time nor a number of ms")
    if not 0 <= made <= LARGEST_TIMESTAMP:
        raise ValueError(f"{value!r} is before 1970, or too late")
    return made
