"""Reads the rows of a local file, whatever its format, from a row on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from penstock.common.errors import ConfigError
from penstock.pipeline.ingest.arrow_rows import ArrowRows
from penstock.pipeline.ingest.contracts import CsvForm, FileError, FileFormat, Rows
from penstock.pipeline.ingest.csv_rows import csv_rows, csv_schema
from penstock.pipeline.ingest.json_rows import json_lines

AT_ONCE = 4_096
"""Most rows that are in memory as Python's objects."""
AT_ONCE_BYTES = 8 << 20
"""Bytes of rows after which no further row is taken with them: rows may be large, and a transaction must not last."""


def schema_of(file: Path, format_: FileFormat, form: CsvForm) -> pa.Schema | None:
    """Returns the columns of ``file`` with their types; None for JSON Lines, of which each row has its own. Raises
    ConfigError if it cannot be read as one of its format."""
    try:
        match format_:
            case FileFormat.PARQUET:
                return parquet.read_schema(file)
            case FileFormat.CSV:
                return csv_schema(file, form)
            case FileFormat.JSON_LINES:
                return None
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"it cannot be read as {format_}: {error}") from error


def read_rows(
    file: Path, format_: FileFormat, form: CsvForm, columns: Sequence[str] | None, skip: int
) -> Iterator[Rows]:
    """Yields the rows of ``file`` behind the first ``skip``, in their order, with these columns, or all if None.

    Raises FileError if the file cannot be read as one of its format; then all rows before that have been yielded.
    """
    try:
        match format_:
            case FileFormat.PARQUET:
                yield from _parquet(file, columns, skip)
            case FileFormat.CSV:
                for rows in csv_rows(file, form, columns):
                    yield from _pieces(rows, skip)
            case FileFormat.JSON_LINES:
                with file.open("rb") as lines:
                    yield from json_lines(lines, AT_ONCE, skip, AT_ONCE_BYTES)
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"it cannot be read as {format_}: {error}") from error


def _parquet(file: Path, columns: Sequence[str] | None, skip: int) -> Iterator[Rows]:
    with parquet.ParquetFile(file, memory_map=True) as content:
        sizes = [content.metadata.row_group(number).num_rows for number in range(content.num_row_groups)]
        first, passed = 0, 0
        while passed < len(sizes) and first + sizes[passed] <= skip:
            first += sizes[passed]
            passed += 1
        groups = range(passed, len(sizes))
        bytes_of = [content.metadata.row_group(number).total_byte_size for number in groups]
        # A batch has rows of several groups, so the one with the largest rows decides.
        by_group = [_rows_at_once(sizes[number], size) for number, size in zip(groups, bytes_of, strict=True)]
        most = min((rows for number, rows in zip(groups, by_group, strict=True) if sizes[number]), default=AT_ONCE)
        for batch in content.iter_batches(most, row_groups=groups, columns=None if columns is None else [*columns]):
            yield from _pieces(ArrowRows(first, batch), skip)
            first += batch.num_rows


def _pieces(rows: ArrowRows, skip: int) -> Iterator[ArrowRows]:
    """Yields ``rows`` in pieces of a size that Python's memory has room for, without those before row ``skip``."""
    begin, most = max(0, skip - rows.first), _rows_at_once(len(rows), rows.bytes)
    while begin < len(rows):
        yield rows.slice(begin, most)
        begin += most


def _rows_at_once(rows: int, size: int) -> int:
    """Returns the number of rows that are taken at once, of ``rows`` that have ``size`` bytes together."""
    return min(AT_ONCE, max(1, AT_ONCE_BYTES * rows // max(1, size)))
