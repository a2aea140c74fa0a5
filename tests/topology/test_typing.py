"""The DSL is typed: user functions are checked and inferred through it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_mypy_infers_the_types_of_a_program() -> None:
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "-m", "tests.topology.typed_program"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
