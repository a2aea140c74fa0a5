"""docs/ARCHIVE.md: DuckDB and pandas read an archive by its manifests, as the page shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.compaction import compact
from penstock.pipeline.archive.topic_log import BASE_EACH
from tests.architecture.sources import ROOT
from tests.pipeline.archive.making import begun, span, table, written

PAGE = (ROOT / "docs/ARCHIVE.md").read_text()


def block(language: str, folder: Path) -> str:
    """Returns the code of the page, for an archive in ``folder``."""
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(code).replace("/data/archive", str(folder))


@pytest.fixture(params=[20, BASE_EACH + 10], ids=["without a base", "with a base"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, int]:
    """An archive of which files were compacted, after which records came, beside a file of a run that was killed."""
    objects = ObjectLocation(str(tmp_path)).open()
    log = begun(objects, topic="page-views")
    count: int = request.param
    for begin in range(0, 10 * count, 10):
        log.commit("run-1", 2_000, [span(begin, begin + 10)], [written(objects, begin, begin + 10, topic="page-views")])
        if begin == 120:
            assert compact(objects, log, lambda: 3_000).before
    written(objects, 10 * count, 10 * count + 10, topic="page-views")
    return tmp_path, 10 * count


def test_duckdb_reads_each_record_once(archive: tuple[Path, int]) -> None:
    folder, records = archive
    connection = duckdb.connect()
    found: Any = connection.execute(block("sql", folder)).fetchall()
    assert found == [(records, records - 1)]
    rows = connection.execute(
        "SELECT key, value, topic, partition, \"offset\", epoch_ms(timestamp) FROM read_parquet(getvariable('files')) "
        'ORDER BY "offset"'
    ).fetchall()
    expected = table(range(records), topic="page-views").set_column(
        5, "timestamp", pa.array(range(1_000_000, 1_000_000 + records), pa.int64())
    )
    assert rows == [tuple(row.values())[:6] for row in expected.to_pylist()]


def test_pandas_reads_each_record_once(archive: tuple[Path, int]) -> None:
    folder, records = archive
    names: dict[str, Any] = {}
    exec(block("python", folder), names)
    found = names["records"].sort_values("offset")
    assert found["offset"].tolist() == list(range(records))
    assert found["value"].tolist() == table(range(records)).column("value").to_pylist()
