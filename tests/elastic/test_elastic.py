"""Stream actors come and go on a Ray cluster of several nodes, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_LONGEST_S = 240


def test_actors_follow_load_and_nodes_and_every_record_counts_once(broker: str, tmp_path: Path) -> None:
    story = [sys.executable, "-m", "tests.elastic", broker, str(tmp_path)]
    ended = subprocess.run(
        story, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=_LONGEST_S, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr[-5000:]}"
    print(ended.stdout)
    assert "each counted once" in ended.stdout
