"""Rows of CSV. Every field is text, unless a type is given: a type that is guessed would depend on the file."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from typing_extensions import override

from penstock.common.errors import ConfigError
from penstock.pipeline.ingest.arrow_rows import ArrowRows
from penstock.pipeline.ingest.contracts import CsvForm, CsvType

_BLOCK_BYTES = 1 << 20
_ARROW = {
    CsvType.TEXT: pa.string(),
    CsvType.LONG: pa.int64(),
    CsvType.DOUBLE: pa.float64(),
    CsvType.BOOLEAN: pa.bool_(),
}
_END = "end of the file, as penstock sees it"
_NEVER_CLOSED = "a quote in it is never closed, so the rest of the file belongs to it"
_HEADER_ROWS = 2
"""pyarrow counts rows from 1, and the header is one."""


def csv_schema(content: Path | IO[bytes], form: CsvForm) -> pa.Schema:
    """Returns the columns that the header names, with the types of ``form``. Raises ConfigError for a file without a
    header, and for a header with a name twice."""
    try:
        with csv.open_csv(content, _reading(), _parsing(form, lambda _: "skip")) as reader:
            names = reader.schema.names
    except pa.ArrowInvalid as error:
        raise ConfigError(f"it is not CSV: {error}") from None
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"its header has the column {name!r} twice")
    return pa.schema([(name, _ARROW[form.types.get(name, CsvType.TEXT)]) for name in names])


def csv_rows(file: Path, form: CsvForm, columns: Sequence[str] | None) -> Iterator[ArrowRows]:
    """Yields the rows of ``file``, with these columns, or all if None."""
    schema = csv_schema(file, form)
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    invalid: dict[int, str] = {}
    """By their indices in the file: rows with too few or too many fields. Found before the batch of their block."""

    end = f'"{_END}"' + form.delimiter * len(schema)
    """A row behind the last one, with one field too many. If the file leaves a quote open, the first quote of this row
    closes it. Then the row of the open quote has too many fields, and its text includes this row."""

    def note(row: Any) -> str:
        if row.text != end:
            wrong = f"it has {row.actual_columns} fields instead of {row.expected_columns}"
            invalid[row.number - _HEADER_ROWS] = _NEVER_CLOSED if end in row.text else wrong
        return "skip"

    converting = csv.ConvertOptions(
        include_columns=wanted.names,
        # Decoded below, so that a text that is not UTF-8 is one row's fault, not that of its block.
        column_types={name: pa.binary() for name in schema.names},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    first = 0
    with (
        file.open("rb") as content,
        csv.open_csv(_WithEnd(content, f"\n{end}".encode()), _reading(), _parsing(form, note), converting) as reader,
    ):
        for batch in reader:
            rows = _typed(first, batch, wanted, invalid)
            first += len(rows)
            yield rows
    if invalid:
        yield _typed(first, _none(wanted), wanted, invalid)


class _WithEnd(io.RawIOBase):
    """The content of a file, and more text behind it."""

    def __init__(self, content: IO[bytes], end: bytes) -> None:
        self._parts = [content, io.BytesIO(end)]

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        while self._parts:
            if data := self._parts[0].read(len(buffer)):
                buffer[: len(data)] = data
                return len(data)
            del self._parts[0]
        return 0


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], pa.binary()) for _ in schema], names=schema.names)


def _reading() -> csv.ReadOptions:
    return csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)  # with threads, rows have no numbers


def _parsing(form: CsvForm, invalid: Any) -> csv.ParseOptions:
    return csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True, invalid_row_handler=invalid)


def _typed(first: int, batch: pa.RecordBatch, schema: pa.Schema, invalid: dict[int, str]) -> ArrowRows:
    """Returns the rows of ``batch`` and, in between, the invalid ones, which are taken out of ``invalid``."""
    refused: dict[int, str | None] = {}
    taken: list[int | None] = []
    total = batch.num_rows
    for number in sorted(invalid):
        if number - first > total or (number - first == total and batch.num_rows):
            break  # behind this batch
        taken += range(len(taken) - len(refused), number - first - len(refused))
        taken.append(None)
        refused[number - first] = invalid.pop(number)
        total += 1
    if refused:
        taken += range(len(taken) - len(refused), batch.num_rows)
        batch = batch.take(pa.array(taken, pa.int64()))
    arrays = [_cast(batch.column(field.name), field, refused) for field in schema]
    return ArrowRows(first, pa.RecordBatch.from_arrays(arrays, schema=schema), refused)


def _cast(column: pa.Array, field: pa.Field, refused: dict[int, str | None]) -> pa.Array:
    try:
        return pc.cast(pc.cast(column, pa.string()), field.type)
    except pa.ArrowInvalid:
        return pa.array([_cast_one(each, index, field, refused) for index, each in enumerate(column)], field.type)


def _cast_one(value: pa.Scalar, index: int, field: pa.Field, refused: dict[int, str | None]) -> Any:
    try:
        return value.cast(pa.string()).cast(field.type).as_py()
    except pa.ArrowInvalid:
        given = value.as_py()
        if field.type == pa.string():
            refused.setdefault(index, f"{given!r} in column {field.name!r} is not UTF-8")
        else:
            text = given.decode(errors="backslashreplace")
            refused.setdefault(index, f"{text!r} in column {field.name!r} is not {field.type}")
        return None
