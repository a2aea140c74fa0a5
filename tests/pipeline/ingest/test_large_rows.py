"""Rows may be large: how many are in memory, and are sent before a commit can be due, depends on their bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.pipeline.ingest.contracts import CsvForm, FileFormat
from penstock.pipeline.ingest.reading import read_rows
from tests.pipeline.ingest.rig import write_json_lines, write_parquet

ROWS, BYTES, MOST = 30, 1 << 20, 10 << 20


def write(form: FileFormat, file: Path) -> None:
    """Write rows of 1 MB each."""
    rows = [{"number": number, "text": "x" * BYTES} for number in range(ROWS)]
    match form:
        case FileFormat.PARQUET:
            write_parquet(file, rows)
        case FileFormat.JSON_LINES:
            write_json_lines(file, rows)
        case FileFormat.CSV:
            file.write_text("".join(["number,text\n", *(f"{row['number']},{'x' * 999_000}\n" for row in rows)]))


@pytest.mark.parametrize("skip", [0, 17])
@pytest.mark.parametrize("form", FileFormat)
def test_large_rows_are_read_a_few_at_a_time(tmp_path: Path, form: FileFormat, skip: int) -> None:
    write(form, tmp_path / "rows")
    numbers: list[int] = []
    for rows in read_rows(tmp_path / "rows", form, CsvForm(), None, skip):
        assert sum(len(json.dumps(each)) for each in rows.objects(())) <= MOST
        assert rows.first == skip + len(numbers)
        numbers += [int(each) for each in rows.values("number")]
    assert numbers == list(range(skip, ROWS))
