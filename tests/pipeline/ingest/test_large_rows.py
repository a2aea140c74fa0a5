"""Rows may be large: how many are in memory, and are sent before a commit can be due, depends on their bytes."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path

import pytest

from penstock.pipeline.ingest import json_rows
from penstock.pipeline.ingest.contracts import CsvForm, FileFormat
from penstock.pipeline.ingest.json_rows import json_lines
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


@pytest.mark.parametrize("skip", [0, 1, 2])
def test_of_a_line_that_is_too_long_only_a_bounded_part_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skip: int
) -> None:
    monkeypatch.setattr(json_rows, "LONGEST_LINE", BYTES)
    file = tmp_path / "rows.jsonl"
    with file.open("w") as lines:
        lines.write('{"number": 1}\n[')
        for _ in range(40):
            lines.write(f'{{"text": "{"x" * BYTES}"}},')
        lines.write('{"number": 2}]\n{"number": 3}\n')
    tracemalloc.start()
    found = list(read_rows(file, FileFormat.JSON_LINES, CsvForm(), None, skip))
    assert tracemalloc.get_traced_memory()[1] < 8 * BYTES
    tracemalloc.stop()
    refused = {rows.first + index: why or "" for rows in found for index, why in rows.refused.items()}
    assert [row.get("number") for rows in found for row in rows.objects(())] == [1, None, 3][skip:]
    assert list(refused) == [1][skip // 2 :]
    for why in refused.values():
        assert why.startswith("its line has more than 1 MB; JSON Lines has one object on each line (jq")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("longer", [0, 1, 2, 3])
def test_the_end_of_a_line_does_not_count(monkeypatch: pytest.MonkeyPatch, end: bytes, longer: int) -> None:
    longest = b'{"number": 1}'
    monkeypatch.setattr(json_rows, "LONGEST_LINE", len(longest))
    lines = longest + b" " * longer + end + (end and longest)
    found = [rows.refused.keys() for rows in json_lines(io.BytesIO(lines), 10, 0)]
    assert found == [{0} if longer else set()]


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
