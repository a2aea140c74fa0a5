"""Decoded columns beside keys and values: what a serde makes of them, in the Arrow type that fits the serde."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_type_hints

import pyarrow as pa

from penstock.common.errors import RetriableError
from penstock.common.serdes import Serde, SerdePart, bound, json_type
from penstock.pipeline.archive.nested import Form, column_of, form_of
from penstock.pipeline.archive.records import FILE_SCHEMA

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
}


@dataclass(frozen=True)
class NamedSerde:
    """A serde, and the name by which the user has given it: one of :class:`Serdes`, or ``MODULE:SERDE``."""

    name: str
    serde: Serde[Any]


@dataclass(frozen=True)
class Decoding:
    """The serdes of the decoded columns of a topic. Picklable, if the serdes are."""

    key: NamedSerde | None = None
    value: NamedSerde | None = None

    def bound(self, topic: str) -> Decoder:
        """Returns what decodes the records of ``topic``."""
        return Decoder(self, topic)


@dataclass
class Decoder:
    """Adds the columns ``key_decoded`` and ``value_decoded`` to records."""

    decoding: Decoding
    topic: str
    columns: list[_Column] = field(init=False)

    def __post_init__(self) -> None:
        """Make the columns that there are."""
        given: tuple[tuple[SerdePart, NamedSerde | None], ...] = (
            ("key", self.decoding.key),
            ("value", self.decoding.value),
        )
        self.columns = [_Column(part, named, self.topic) for part, named in given if named is not None]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a file."""
        return pa.schema([*FILE_SCHEMA, *(pa.field(column.name, column.kind) for column in self.columns)])

    @property
    def name(self) -> str:
        """The serdes, as a manifest has them; empty if there is none."""
        return ",".join(f"{column.part}={column.named.name}" for column in self.columns)

    def with_columns(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Returns the records with the decoded columns, and the number of keys and values that a serde refused: null
        stands for them."""
        if not self.columns:
            return records, 0
        refused = 0
        arrays = list(records.columns)
        for column in self.columns:
            decoded, count = column.of(records.column(column.part))
            arrays.append(decoded)
            refused += count
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), refused


class _Column:
    def __init__(self, part: SerdePart, named: NamedSerde, topic: str) -> None:
        self.part = part
        self.named = named
        self.name = f"{part}_decoded"
        serde = bound(named.serde, topic, part)
        self._form = _form_of(named.name, serde)
        self.kind = self._form.arrow
        self._deserialize = serde.deserialize

    def of(self, raw: pa.Array) -> tuple[pa.Array, int]:
        decoded, refused = [], 0
        for data in raw.to_pylist():
            value = None
            if data is not None:
                try:
                    value = self._form.convert(self._deserialize(data))
                except RetriableError:  # of a schema registry: Spark tries again, or the run fails and can continue
                    raise
                except Exception:  # whatever a serde raises: the raw bytes are archived
                    refused += 1
            decoded.append(value)
        column, unfit = column_of(self._form, decoded)
        return column, refused + unfit


def _form_of(name: str, serde: Serde[Any]) -> Form:
    if name in _TYPES:
        return Form(_TYPES[name], lambda value: value)
    return form_of(type_of(serde))


def type_of(serde: Serde[Any]) -> Any:
    """Returns the type of the objects that a serde makes: the one that ``Serdes.json`` was given, or the annotation of
    what ``deserialize`` returns; Any if neither is known."""
    if (kind := json_type(serde)) is not None:
        return kind
    try:
        return get_type_hints(serde.deserialize).get("return", Any)
    except (TypeError, NameError):  # no function of Python, or an annotation that cannot be resolved
        return Any
