"""The options of ``penstock ingest``, and the values that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.spark_options import ANY_PLACE
from penstock.cli.topic_options import pair
from penstock.common.errors import ConfigError

if TYPE_CHECKING:
    from penstock.pipeline.ingest.contracts import CsvForm, FileFormat

FAIL, SKIP = "fail", "skip"

Url = Annotated[str, typer.Argument(metavar="URL", help=f"A file or a folder: {ANY_PLACE}")]
Topic = Annotated[str, typer.Option("--topic", "-t", help="The topic that gets the records; it must exist")]
KeyColumn = Annotated[str | None, typer.Option(help="The column of the keys; without it keys are null")]
Key = Annotated[str, typer.Option("--key", metavar="SERDE", help="The serde of keys, or MODULE:SERDE")]
ValueColumn = Annotated[
    list[str] | None,
    typer.Option(
        help="The column of the values. If given several times, the value is an object with these fields. By default "
        "it is an object with all columns"
    ),
]
Value = Annotated[
    str | None,
    typer.Option("--value", metavar="SERDE", help="The serde of values: string for one column, else json"),
]
TimestampColumn = Annotated[
    str | None, typer.Option(help="The column of the timestamps; by default the time of writing")
]
HeaderColumn = Annotated[
    list[str] | None,
    typer.Option("--header-column", metavar="NAME=COLUMN", help="A header and its column; may be repeated"),
]
PartitionColumn = Annotated[str | None, typer.Option(help="The column of the partition numbers")]
PartitionerName = Annotated[
    str | None,
    typer.Option(metavar="MODULE:FUNCTION", help="A function that chooses partitions, instead of Kafka's murmur2"),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="parquet|csv|jsonl|iceberg",
        help="Format of the files. By default the ends of their names show it",
    ),
]
ICEBERG = "iceberg"
"""The format by which the URL is the name of a table."""
CsvDelimiter = Annotated[str, typer.Option(help="The character between two fields of CSV")]
ColumnType = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=TYPE", help="Type of a column of CSV: long, double, boolean, or text"),
]
OnError = Annotated[str, typer.Option(metavar="fail|skip", help="Reaction to a row that cannot become a record")]
IngestId = Annotated[
    str | None, typer.Option("--id", help="The name of the ingest. By default it is made from topic and URL")
]


def skips(on_error: str) -> bool:
    """Returns True if rows that are no records are skipped."""
    if on_error not in (FAIL, SKIP):
        raise ConfigError(f"--on-error {on_error!r}: it is {FAIL} or {SKIP}")
    return on_error == SKIP


def format_of(text: str | None) -> FileFormat | None:
    """Returns the format of that name. Raises ConfigError."""
    from penstock.pipeline.ingest.contracts import FileFormat

    if text is None:
        return None
    try:
        return FileFormat(text)
    except ValueError:
        raise ConfigError(f"--format {text!r} is none of {', '.join(FileFormat)}, {ICEBERG}") from None


def csv_form(delimiter: str, types: list[str]) -> CsvForm:
    """Returns the form of CSV. Raises ConfigError for a delimiter or types that cannot be one."""
    from penstock.pipeline.ingest.contracts import CsvForm, CsvType

    if len(delimiter) != 1:
        raise ConfigError(f"--csv-delimiter {delimiter!r} is not one character")
    found = {}
    for text in types:
        column, kind = pair("--column-type", text, "COLUMN=TYPE")
        try:
            found[column] = CsvType(kind)
        except ValueError:
            raise ConfigError(f"--column-type {text!r}: the types are {', '.join(CsvType)}") from None
    return CsvForm(delimiter, found)


def header(text: str) -> tuple[str, str]:
    """Returns the name and the column of a header. Raises ConfigError."""
    return pair("--header-column", text, "NAME=COLUMN")
