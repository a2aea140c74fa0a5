"""``penstock ingest --format iceberg``: the rows of one snapshot of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from penstock.common.errors import ConfigError
from penstock.pipeline.iceberg_catalog import IcebergCatalog
from penstock.pipeline.ingest.iceberg_files import find_table
from penstock.pipeline.ingest.ingest import IngestReport, snapshot_of
from tests.pipeline.ingest.mortal import Calls, Killed, mortal
from tests.pipeline.ingest.rig import Rig

SCHEMA = pa.schema([pa.field("user", pa.string()), pa.field("n", pa.int64()), pa.field("tags", pa.list_(pa.string()))])


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"user": f"u{n}", "n": n, "tags": ["a"]} for n in numbers], SCHEMA)


class Source:
    """A table of one file, and the ingest of it into a topic of the fake broker."""

    def __init__(self, folder: Path) -> None:
        self.catalog = IcebergCatalog("default", {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"})
        self._opened = self.catalog.open()
        self._opened.create_namespace("sales")
        self._opened.create_table("sales.views", SCHEMA, f"file://{folder}/a table")
        self.rig = Rig(folder)
        self.table().append(rows(1, 2, 3))

    def table(self) -> Table:
        return self._opened.load_table("sales.views")

    def ingest(self, clients: Any = None, id_: str = "load") -> IngestReport:
        self.rig.source = find_table(self.catalog, "sales.views", {}, snapshot_of(id_, self.rig.clients))
        return self.rig.ingest(id_=id_, clients=clients, key_column="user")

    def numbers(self) -> list[int]:
        return sorted(value["n"] for value in self.rig.values())


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def test_the_rows_of_a_table_are_records(source: Source) -> None:
    source.table().append(rows(4))
    made = source.ingest()
    assert (made.records, made.files) == (4, 2)
    assert source.numbers() == [1, 2, 3, 4]
    assert source.rig.records()[0].key is not None
    assert source.rig.values()[0].keys() == {"user", "n", "tags"}


def test_a_rerun_takes_the_snapshot_of_the_first_run(source: Source) -> None:
    source.table().append(rows(4, 5, 6))
    killed = 0
    for at in (25, 35, 45):
        try:
            source.ingest(mortal(source.rig.clients, Calls(at)))
        except Killed:
            killed += 1
        source.table().append(rows(100 + at))
    source.table().overwrite(rows(7))
    source.ingest()
    assert killed == 3
    assert source.numbers() == [1, 2, 3, 4, 5, 6]
    source.ingest(id_="another")
    assert source.numbers() == [1, 2, 3, 4, 5, 6, 7]


def test_a_snapshot_that_was_removed_is_named(source: Source) -> None:
    source.ingest()
    source.table().append(rows(4))
    first = source.table().snapshots()[0]
    source.table().maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    with pytest.raises(
        ConfigError, match=rf"snapshot {first.snapshot_id} of Iceberg table sales.views, with .*was removed"
    ):
        source.ingest()


def test_a_column_that_was_renamed_or_added_since_is_refused_before_any_work(source: Source) -> None:
    with source.table().update_schema() as change:
        change.rename_column("n", "number")
    source.table().append(
        pa.table({"user": ["u9"], "number": [9], "tags": [["a"]]}, SCHEMA.set(1, SCHEMA.field(1).with_name("number")))
    )
    with pytest.raises(
        ConfigError, match=r"cannot be ingested: it has other columns than Iceberg table sales.views has now"
    ):
        source.ingest()
    assert source.rig.records() == []


def test_a_table_without_rows_is_named(source: Source) -> None:
    source.table().delete("n > 0")
    with pytest.raises(ConfigError, match=r"Iceberg table sales\.views has no rows in snapshot"):
        source.ingest()


def test_deleted_rows_beside_the_files_are_refused(source: Source, monkeypatch: Any) -> None:
    """pyiceberg does not write delete files: Spark does, when it merges on reading."""
    from pyiceberg.table import DataScan

    plan = DataScan.plan_files

    def with_deletes(self: DataScan) -> Any:
        for task in plan(self):
            task.delete_files.add(task.file)
            yield task

    monkeypatch.setattr(DataScan, "plan_files", with_deletes)
    with pytest.raises(
        ConfigError, match=r"deleted rows beside its files, such as file:.* Rewrite the table's data files"
    ):
        source.ingest()
