"""Stream actors start and end on a Ray cluster of several nodes, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_LONGEST_S = 840  # less than faulthandler_timeout, so that a failure shows the output


pytestmark = pytest.mark.faults  # docs/FAULT_RUNS.md has their rows; `make faults` plays them


def test_the_load_changes_and_a_node_is_drained(broker: str, tmp_path: Path) -> None:
    every_record_counts_once("tests.elastic", broker, tmp_path)


def test_a_node_is_lost(broker: str, tmp_path: Path) -> None:
    every_record_counts_once("tests.elastic.lost_node", broker, tmp_path)


def test_a_second_cluster_joins_and_the_first_leaves(broker: str, tmp_path: Path) -> None:
    every_record_counts_once("tests.elastic.two_clusters", broker, tmp_path)


def every_record_counts_once(story: str, broker: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", story, broker, str(tmp_path)]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=_LONGEST_S, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr[-5000:]}"
    print(ended.stdout)
    assert "each counted once" in ended.stdout
