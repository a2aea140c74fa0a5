"""The programs of docs/PROGRAMS.md run, and what they assert of themselves holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "PROGRAMS.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(1, len(PROGRAMS) + 1))
def test_it_runs(program: str) -> None:
    assert "assert " in program
    exec(compile(program, "programs", "exec", dont_inherit=True), {"__name__": "__main__"})
