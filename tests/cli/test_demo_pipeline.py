"""The day of ``make demo-pipeline``, and docs/PIPELINE.md, which shows the same commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from examples.page_views_data import make
from examples.page_views_report import report
from penstock.cli.demo_pipeline import play
from tests.architecture.sources import ROOT
from tests.groups import RAYS_OF_THEIR_OWN

PAGE = (ROOT / "docs/PIPELINE.md").read_text()
VIEWS, MORNING = 3_000, 2_000
BEGIN = datetime(2026, 11, 27, tzinfo=UTC)


class Typed:
    """Stands in for the demo's shell: takes the commands, and runs none."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.titles: list[str] = []

    def step(self, title: str, why: str) -> None:
        self.titles.append(title)

    def export(self, name: str, value: str) -> None:
        self.commands.append(f"export {name}={value}")

    def run(self, command: str, expected: int = 0) -> None:
        self.commands.append(command)

    def start(self, application_id: str, target: str, log: str) -> None:
        self.commands.append(f"penstock run {target} > {log} 2>&1 &")

    def stop(self, application_id: str) -> None:
        self.commands.append(f"penstock stop {application_id}")

    def at_the_end(self, command: str) -> None: ...

    def caught_up(self, application_id: str, topics: Sequence[str]) -> None: ...


def test_the_page_has_the_demos_steps_and_commands(tmp_path: Path) -> None:
    day: Any = Typed()
    play(day, tmp_path, 150_000)
    titles, blocks = re.findall(r"^### (.*)$", PAGE, re.MULTILINE), re.findall(r"^```sh\n(.*?)^```", PAGE, re.S | re.M)
    assert titles == day.titles
    shown = [line for block in blocks[2:] for line in block.splitlines()]
    port = re.search(r"--port (\d+)", day.commands[0])
    assert port is not None
    played = [line.replace(port[1], "9092") for line in day.commands]
    assert shown == [*played, "penstock stop page-views-with-visits", "penstock broker stop --dir kafka --port 9092"]


def test_a_seed_makes_the_day(tmp_path: Path) -> None:
    regions = make(tmp_path, VIEWS, BEGIN)
    assert regions.total() == VIEWS
    assert parquet.read_table(tmp_path / "views").num_rows == MORNING
    at = parquet.read_table(tmp_path / "later").column("at").to_pylist()
    assert at == sorted(at)
    other = tmp_path / "other"
    other.mkdir()
    assert make(other, VIEWS, BEGIN) == regions


def test_duckdb_sums_the_archive_by_region(tmp_path: Path) -> None:
    for topic, rows in (
        ("profiles", [("ann", {"region": "north"}), ("bob", {"region": "south"}), ("ann", {"region": "east"})]),
        ("page-views", [("ann", {"seconds": 3}), ("bob", {"seconds": 4}), ("ann", {"seconds": 5})]),
    ):
        records = [
            {"key": key.encode(), "value": json.dumps(value).encode(), "offset": offset}
            for offset, (key, value) in enumerate(rows)
        ]
        (tmp_path / topic / "0").mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(records), tmp_path / topic / "0" / "0-3.parquet")
    assert report(str(tmp_path)) == [("east", 2, 8), ("south", 1, 4)]


@pytest.mark.long
@pytest.mark.xdist_group(RAYS_OF_THEIR_OWN)
def test_the_day_as_a_user_sees_it() -> None:
    # pytest-xdist sets COLUMNS, so that tables would be broken into lines.
    others = ("RAY_", "PENSTOCK_", "COLUMNS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.demo_pipeline", "--views", str(VIEWS)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    printed = done.stdout
    assert done.returncode == 0, printed + done.stderr
    steps = dict(re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", printed, re.S | re.M))
    assert "5,000 records of 1 file written to profiles" in printed
    assert f"{MORNING:,} records of 1 file written to page-views" in printed
    assert f"{VIEWS - MORNING:,} records of 1 file written to page-views" in printed
    assert archived(steps["penstock archive list archive"]) == {"page-views": MORNING, "profiles": 5_000}
    backfill = steps["penstock backfill page_views:app_with_visits --source archive"]
    assert re.search(rf"read +page-views +{MORNING:,}\n", backfill)
    assert "hand-overs/" in steps["find page-views-files/checkpoints -name '*.json'"]
    clean, corrupted = printed.split("$ penstock audit page_views:app_with_visits\n")[1:]
    assert "Audit: nothing differs" in clean
    assert "exit code 3" in corrupted
    assert re.search(r"visits, task 0_\d, key .*user-\d+", corrupted)
    assert re.search(r"expected .*pages=(?!999)\d", corrupted)
    assert re.search(r"found .*pages=999", corrupted)
    assert re.search(r"from +page-views-\d: \d+ records? of the key, at offsets? ", corrupted)
    regions = dict(re.findall(r"views from the (\w+): ([\d,]+)", printed))
    found = dict(re.findall(r"^(\w+) +([\d,]+) views", steps["python page_views_report.py archive"], re.M))
    assert found == regions
    assert done.stderr.count("WARN") == 0, done.stderr


def archived(table: str) -> dict[str, int]:
    """Returns the number of records of each topic, as ``penstock archive list`` shows it."""
    totals: dict[str, int] = {}
    for topic, records in re.findall(r"^ *([\w-]+) +1 +\d +0 to [\d,]+ +([\d,]+) ", table, re.M):
        totals[topic] = totals.get(topic, 0) + int(records.replace(",", ""))
    return totals
