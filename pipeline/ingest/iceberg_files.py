"""The files of one snapshot of an Iceberg table, as the source of an ingest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from penstock.common.errors import ConfigError
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.iceberg_catalog import IcebergCatalog
from penstock.pipeline.ingest.contracts import FileFormat, SourceFile
from penstock.pipeline.ingest.files import Source

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table

_SCHEMES = {"file": "file", "": "file", "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"}


def table_url(catalog: IcebergCatalog, table: str) -> str:
    """Returns the name by which an ingest knows a table."""
    return f"iceberg:{catalog.name}.{table}"


def find_table(catalog: IcebergCatalog, name: str, settings: Mapping[str, Any], snapshot: str = "") -> Source:
    """Returns the files of a table: of the snapshot with this id, which an earlier run has begun with, or of the
    current one.

    Raises ConfigError for a table without rows, one with deleted rows beside its files, and a snapshot that is gone.
    """
    with catalog.errors(f"Iceberg table {name} of catalog {catalog.name}"):
        table = catalog.open().load_table(name)
        found = _snapshot_of(table, name, snapshot)
        tasks = list(table.scan(snapshot_id=found).plan_files())
        schema = table.schemas()[_schema_of(table, found)]
    for task in tasks:
        _check(name, task)
    if not tasks:
        raise ConfigError(f"Iceberg table {name} has no rows in snapshot {found}")
    root, names = _below(name, [task.file.file_path for task in tasks])
    files = [
        SourceFile(each, task.file.file_size_in_bytes, 0, FileFormat.PARQUET)
        for each, task in zip(names, tasks, strict=True)
    ]
    in_order = tuple(sorted(files, key=lambda file: file.name))
    return Source(
        table_url(catalog, name), ObjectLocation(root, settings), in_order, str(found), TableColumns(name, schema)
    )


def _snapshot_of(table: Table, name: str, snapshot: str) -> int:
    if snapshot:
        if table.snapshot_by_id(int(snapshot)) is None:
            raise ConfigError(
                f"snapshot {snapshot} of Iceberg table {name}, with which this ingest has begun, was removed: what was "
                "not written yet cannot be found any more. Give another --id to write all rows of the current snapshot"
            )
        return int(snapshot)
    current = table.current_snapshot()
    if current is None:
        raise ConfigError(f"Iceberg table {name} has no rows: it has no snapshot yet")
    return current.snapshot_id


def _schema_of(table: Table, snapshot: int) -> int:
    found = table.snapshot_by_id(snapshot)
    return table.schema().schema_id if found is None or found.schema_id is None else found.schema_id


def _check(name: str, task: FileScanTask) -> None:
    file = task.file
    if task.delete_files:
        raise ConfigError(
            f"Iceberg table {name} has deleted rows beside its files, such as {file.file_path}: penstock does not read "
            "delete files. Rewrite the table's data files first, as Spark's rewrite_data_files does"
        )
    if file.file_format.value.lower() != FileFormat.PARQUET:
        raise ConfigError(f"Iceberg table {name}: {file.file_path} is {file.file_format.value}, not Parquet")


def _below(name: str, urls: list[str]) -> tuple[str, list[str]]:
    """Returns the root of the storage that has the files, and their names in it."""
    found = set()
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES:
            raise ConfigError(f"Iceberg table {name}: {url}: penstock reads files, s3:// and gs://")
        found.add((_SCHEMES[parts.scheme], parts.netloc))
    if len(found) > 1:
        raise ConfigError(f"Iceberg table {name} has files in several places, such as {urls[0]} and {urls[-1]}")
    ((scheme, bucket),) = found
    paths = [
        url.partition("://")[2].removeprefix(bucket) if "://" in url else url.partition(":")[2] or url for url in urls
    ]
    return f"{scheme}://{bucket}/", [path.lstrip("/") for path in paths]


@dataclass(frozen=True)
class TableColumns:
    """Checks that a file has the columns of its table, as they are now."""

    table: str
    schema: Schema

    def __call__(self, file: pa.Schema) -> None:
        """Raise ConfigError if a column was added, renamed, dropped or changed since the file was written."""
        from pyiceberg.exceptions import ValidationError
        from pyiceberg.io.pyarrow import pyarrow_to_schema

        try:
            there = pyarrow_to_schema(file, name_mapping=self.schema.name_mapping, downcast_ns_timestamp_to_us=True)
        except (ValueError, TypeError, ValidationError) as error:
            raise self._other(str(error).partition("\n")[0]) from None
        has, wanted = _columns(there), _columns(self.schema)
        for name in sorted({*has, *wanted}):
            if has.get(name) != wanted.get(name):
                raise self._other(f"column {name!r}")

    def _other(self, what: str) -> ConfigError:
        return ConfigError(
            f"it has other columns than Iceberg table {self.table} has now ({what}): a column was added, renamed, "
            "dropped or changed since. Rewrite the table's data files first, as Spark's rewrite_data_files does"
        )


def _columns(schema: Schema) -> dict[str, tuple[int, str]]:
    return {
        schema.find_column_name(field_id) or "": (field_id, _kind(schema.find_type(field_id)))
        for field_id in schema.field_ids
    }


def _kind(kind: Any) -> str:
    return str(kind) if kind.is_primitive else type(kind).__name__
