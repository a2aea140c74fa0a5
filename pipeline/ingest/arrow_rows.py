"""Rows of Parquet and CSV: batches of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from penstock.common.errors import ConfigError
from penstock.pipeline.ingest.contracts import Rows

Convert = Callable[[Any], Any]


class ArrowRows(Rows):
    """:class:`~penstock.pipeline.ingest.contracts.Rows` of a batch of Arrow, whose columns are known to exist."""

    def __init__(self, first: int, batch: pa.RecordBatch, refused: dict[int, str | None] | None = None) -> None:
        self.first = first
        self.refused = refused or {}
        self._batch = batch

    @override
    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @property
    def bytes(self) -> int:
        """The bytes of all rows together, as Arrow has them."""
        return int(self._batch.nbytes)

    def slice(self, begin: int, most: int) -> ArrowRows:
        """Returns at most ``most`` of the rows, from index ``begin`` on."""
        refused = {index - begin: why for index, why in self.refused.items() if begin <= index < begin + most}
        return ArrowRows(self.first + begin, self._batch.slice(begin, most), refused)

    @override
    def values(self, column: str) -> Sequence[Any]:
        return _list(self._column(column))

    @override
    def plain(self, column: str) -> Sequence[Any]:
        found = self._column(column)
        if pa.types.is_timestamp(found.type):
            return _iso_texts(found)
        convert = plain_form(found.type)
        values = _list(found)
        return values if convert is None else [None if value is None else convert(value) for value in values]

    @override
    def content(self, column: str) -> Sequence[Any]:
        return self.values(column) if is_bytes(self._column(column).type) else self.plain(column)

    @override
    def timestamps(self, column: str) -> Sequence[Any]:
        found = self._column(column)
        if pa.types.is_timestamp(found.type) or pa.types.is_date(found.type):
            return _list(pc.cast(found, pa.timestamp("ms"), safe=False).cast(pa.int64()))
        return self.plain(column)

    @override
    def objects(self, columns: Sequence[str]) -> Sequence[Any]:
        names = columns or self._batch.schema.names
        cells = [self.plain(name) for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]

    def _column(self, name: str) -> pa.Array:
        found = self._batch.column(name)
        return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def is_bytes(kind: pa.DataType) -> bool:
    """Returns True for the types of bytes."""
    test = pa.types
    return any(
        test_one(kind)
        for test_one in (test.is_binary, test.is_large_binary, test.is_fixed_size_binary, test.is_binary_view)
    )


def _list(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":  # Python's datetime ends with µs
        column = pc.cast(column, pa.timestamp("us", column.type.tz), safe=False)
    values: list[Any] = column.to_pylist()
    return values


def plain_form(kind: pa.DataType) -> Convert | None:
    """Returns the function that makes values of an Arrow type plain; None if they are. Raises ConfigError for a type
    that has no plain form."""
    test = pa.types
    if test.is_dictionary(kind):
        return plain_form(kind.value_type)
    if test.is_boolean(kind) or test.is_integer(kind) or test.is_floating(kind) or test.is_null(kind):
        return None
    if test.is_string(kind) or test.is_large_string(kind) or test.is_string_view(kind):
        return None
    if test.is_timestamp(kind):
        return _iso_text_of(kind)
    if test.is_date(kind) or test.is_time(kind):
        return lambda value: value.isoformat()
    if test.is_decimal(kind):
        return _decimal
    if kind == pa.uuid():
        return str
    if test.is_list(kind) or test.is_large_list(kind) or test.is_fixed_size_list(kind):
        return _of_list(plain_form(kind.value_type))
    if test.is_struct(kind):
        return _of_struct({field.name: plain_form(field.type) for field in kind})
    if test.is_map(kind) and plain_form(kind.key_type) is None and test.is_string(kind.key_type):
        return _of_map(plain_form(kind.item_type))
    raise ConfigError(f"values of type {kind} have no form in JSON")


def _iso_texts(column: pa.Array) -> list[Any]:
    """Returns times as ISO 8601, those with a zone in UTC; by Arrow, which is twenty times as fast as one by one."""
    texts = pc.replace_substring(pc.cast(pc.cast(column, pa.timestamp(column.type.unit)), pa.string()), " ", "T")
    return _list(texts if column.type.tz is None else pc.binary_join_element_wise(texts, "Z", ""))


def _iso_text_of(kind: pa.TimestampType) -> Convert:
    """Returns the function that does the same for one time, within a list or a struct."""
    digits = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}[kind.unit]
    if kind.tz is None:
        return lambda value: value.isoformat(timespec=digits)
    return lambda value: value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=digits) + "Z"


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _of_list(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [None if value is None else convert(value) for value in values]


def _of_struct(fields: dict[str, Convert | None]) -> Convert | None:
    changed = [(name, convert) for name, convert in fields.items() if convert is not None]
    if not changed:
        return None

    def convert_struct(value: dict[str, Any]) -> dict[str, Any]:
        made = dict(value)
        for name, convert in changed:
            if made[name] is not None:
                made[name] = convert(made[name])
        return made

    return convert_struct


def _of_map(convert: Convert | None) -> Convert:
    if convert is None:
        return dict
    return lambda pairs: {key: None if value is None else convert(value) for key, value in pairs}
