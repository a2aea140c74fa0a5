"""Checks, before any work, that files have the columns of a mapping, and of types that its serdes take.

Only the ends of the files are read: the footer of Parquet, the header of CSV, the first line of JSON Lines.
"""

from __future__ import annotations

import difflib
import io
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
from pyarrow import parquet

from penstock.common.errors import ConfigError
from penstock.common.serdes import Serde
from penstock.objects.contracts import ObjectStore
from penstock.objects.ranged_file import RangedFile
from penstock.pipeline.ingest.arrow_rows import is_bytes, plain_form
from penstock.pipeline.ingest.contracts import CsvForm, FileFormat, SourceFile
from penstock.pipeline.ingest.csv_rows import csv_schema
from penstock.pipeline.ingest.json_rows import ONE_OBJECT, json_lines
from penstock.pipeline.ingest.mapping import RecordMapping

CheckColumns = Callable[[pa.Schema], None] | None
_AT_ONCE = 16
_BEGINNING_BYTES = 1 << 20


def check_files(
    objects: ObjectStore, files: Iterable[SourceFile], mapping: RecordMapping, form: CsvForm, columns: CheckColumns
) -> None:
    """Raise ConfigError for the first file, in their order, that is none of its format, lacks a column, or has one of
    a type that its serde does not take, or that ``columns`` refuses; and ObjectStoreError."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(partial(_check_file, objects, mapping, form, columns), files):
            pass


def _check_file(
    objects: ObjectStore, mapping: RecordMapping, form: CsvForm, columns: CheckColumns, file: SourceFile
) -> None:
    where = f"{file.name!r} in {objects.url}"
    if not file.size:
        if file.format is FileFormat.JSON_LINES:
            return
        raise ConfigError(f"{where} cannot be ingested: an empty file is not {file.format}")
    try:
        match file.format:
            case FileFormat.PARQUET:
                footer = _footer(objects, file)
                if columns is not None:
                    columns(footer)
                check_schema(footer, mapping)
            case FileFormat.CSV:
                schema = csv_schema(io.BytesIO(_beginning(objects, file)), form)
                require_columns(schema.names, form.types)
                check_schema(schema, mapping)
            case FileFormat.JSON_LINES:
                _check_json(_beginning(objects, file), mapping)
    except ConfigError as error:
        raise ConfigError(f"{where} cannot be ingested: {error}") from None


def _beginning(objects: ObjectStore, file: SourceFile) -> bytes:
    return objects.read_range(file.name, 0, min(file.size, _BEGINNING_BYTES))


def _check_json(beginning: bytes, mapping: RecordMapping) -> None:
    line, end, _ = beginning.partition(b"\n")
    if not end and len(beginning) == _BEGINNING_BYTES:  # a line that long is looked at when it is read
        if beginning.lstrip().startswith(b"["):
            raise ConfigError(f"it is a JSON array; {ONE_OBJECT}")
        return
    (rows,) = json_lines(io.BytesIO(line), 1, 0)
    if rows.refused:  # a broken row is the business of --on-error
        return
    (first,) = rows.objects(())
    require_columns(first, mapping.named_columns)


def _footer(objects: ObjectStore, file: SourceFile) -> pa.Schema:
    content = pa.PythonFile(RangedFile(objects, file.name, file.size), mode="r")
    try:
        return parquet.read_schema(content)
    except pa.ArrowInvalid as error:
        raise ConfigError(f"it is not Parquet: {error}") from None


def require_columns(there: Iterable[str], named: Iterable[str]) -> None:
    """Raise ConfigError if one of the ``named`` columns is not there."""
    names = list(there)
    for name in named:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"its columns are {', '.join(names)}"
            raise ConfigError(f"it has no column {name!r}; {hint}")


def check_schema(schema: pa.Schema, mapping: RecordMapping) -> None:
    """Raise ConfigError if ``schema`` lacks a column of the mapping, or has one of a type that cannot be what the
    mapping makes of it."""
    require_columns(schema.names, mapping.named_columns)
    if mapping.key_column is not None:
        _check_serde(schema.field(mapping.key_column), mapping.key_serde, "--key")
    if mapping.value_column is not None:
        _check_serde(schema.field(mapping.value_column), mapping.value_serde, "--value")
    else:
        for name in mapping.value_columns or schema.names:
            _check_plain(schema.field(name), "name the columns of the value by --value-column")
    for _, column in mapping.headers:
        if not is_bytes(schema.field(column).type):
            _check_plain(schema.field(column), "a header is text or bytes")
    if mapping.timestamp_column is not None:
        _check_type(
            schema.field(mapping.timestamp_column), _is_time, "times, dates, numbers of ms and text", "timestamps"
        )
    if mapping.partition_column is not None:
        _check_type(schema.field(mapping.partition_column), _is_whole, "whole numbers and text", "partitions")


def _check_plain(field: pa.Field, advice: str) -> None:
    try:
        plain_form(field.type)
    except ConfigError:
        raise ConfigError(
            f"column {field.name!r} is of type {field.type}, which has no form in JSON: {advice}"
        ) from None


def _check_serde(field: pa.Field, serde: Serde[object], option: str) -> None:
    if serde.name in ("string", "json") or serde.name.startswith("json("):
        advice = f"{option} bytes" if is_bytes(field.type) else "take another column"
        _check_plain(field, advice)
    elif serde.name in _TAKEN:
        test, taken = _TAKEN[serde.name]
        _check_type(field, test, taken, f"the serde {serde.name}")


def _check_type(field: pa.Field, test: Callable[[pa.DataType], bool], taken: str, by: str) -> None:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if not (test(kind) or _is_text(kind) or pa.types.is_null(kind)):
        raise ConfigError(
            f"column {field.name!r} is of type {field.type}, and {by} {'takes' if ' ' in by else 'are'} {taken}"
        )


def _is_text(kind: pa.DataType) -> bool:
    test = pa.types
    return bool(test.is_string(kind) or test.is_large_string(kind) or test.is_string_view(kind))


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


_WHOLE, _NUMBERS = (_is_whole, "whole numbers and text"), (_is_number, "numbers and text")
_TAKEN: Mapping[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "bytes": (is_bytes, "bytes and text"),
    "short": _WHOLE,
    "integer": _WHOLE,
    "long": _WHOLE,
    "float": _NUMBERS,
    "double": _NUMBERS,
    "boolean": (lambda kind: bool(pa.types.is_boolean(kind)), "booleans and text"),
    "uuid": (lambda kind: bool(kind == pa.uuid()), "UUIDs and text"),
}
"""By serde: the types of columns that it takes, beside text."""
