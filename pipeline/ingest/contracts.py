"""The values of an ingest: its files, their rows, and the form of CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from penstock.common.errors import StreamsError


class FileFormat(StrEnum):
    """The formats of files that an ingest reads."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON_LINES = "jsonl"


class CsvType(StrEnum):
    """The types that a column of CSV can have. Without one it is text."""

    TEXT = "text"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"


@dataclass(frozen=True)
class CsvForm:
    """The form of files of CSV, beyond RFC 4180: the delimiter, and the types of columns that are no text."""

    delimiter: str = ","
    types: Mapping[str, CsvType] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceFile:
    """One file: its name below the location, its size in bytes, and the time (ms) at which the storage took it."""

    name: str
    size: int
    modified_ms: int
    format: FileFormat


class FileError(StreamsError):
    """A file cannot be ingested, or not further: the other files are. The message names the file."""


class Rows(Protocol):
    """Consecutive rows of one file.

    A value that is *plain* is one that JSON can have: text, a number, True, False, None, a list or a dict. Times and
    dates are ISO 8601, decimals and UUIDs are text.
    """

    first: int
    """The number of the first row in its file, from 0."""

    refused: dict[int, str | None]
    """By index: rows that are no records, with the reason; None if the row is none at all, as an empty line."""

    def __len__(self) -> int: ...

    def values(self, column: str) -> Sequence[Any]:
        """Returns the values of a column, as Python's objects. A row that lacks it becomes refused."""

    def plain(self, column: str) -> Sequence[Any]:
        """Returns the values of a column, each plain. A row that lacks it becomes refused."""

    def content(self, column: str) -> Sequence[Any]:
        """Like :meth:`plain`; but bytes remain bytes."""

    def timestamps(self, column: str) -> Sequence[Any]:
        """Returns the values of a column; times and dates as ms since the epoch."""

    def objects(self, columns: Sequence[str]) -> Sequence[Any]:
        """Returns a dict of plain values for each row, with these columns; with all if there are none given."""
