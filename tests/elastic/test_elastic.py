"""Stream actors come and go on a Ray cluster of several nodes, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_LONGEST_S = 240


# Rows 5, 6, 19 and 32 of the fault matrix: `make faults`.
@pytest.mark.faults
@pytest.mark.parametrize("story", ["tests.elastic", "tests.elastic.lost_node", "tests.elastic.two_clusters"])
def test_whatever_happens_to_actors_and_nodes_every_record_counts_once(story: str, broker: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", story, broker, str(tmp_path)]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=_LONGEST_S, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr[-5000:]}"
    print(ended.stdout)
    assert "each counted once" in ended.stdout
