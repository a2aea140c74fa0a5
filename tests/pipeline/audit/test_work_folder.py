"""The folder of an audit's work: nothing of it stays, however the audit ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from penstock.pipeline.audit.work_folder import work_folder

KILLED = """
import signal, sys
from pathlib import Path
from penstock.pipeline.audit.work_folder import work_folder
with work_folder(Path(sys.argv[1])) as folder:
    (folder / "results").write_text("many")
    signal.raise_signal(signal.SIGKILL)
"""


def test_the_folder_is_removed_at_the_end_and_that_of_a_killed_audit_by_the_next_one(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=os.environ, check=False)
    assert len(list(tmp_path.glob("*/results"))) == 1, "it was killed"
    with work_folder(tmp_path) as first, work_folder(tmp_path) as second:
        assert sorted(path for path in tmp_path.iterdir() if path.is_dir()) == sorted([first, second])
    assert list(tmp_path.iterdir()) == []
