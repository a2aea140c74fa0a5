"""The programs of the pages in docs/ run, and their own assertions hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PROGRAMS = [
    pytest.param(program, id=f"{page}-{number}")
    for page in (
        "CALLS",
        "DEDUPLICATION",
        "JOINS",
        "OPERATORS",
        "PROCESSORS",
        "PROGRAMS",
        "SERDES",
        "STORES",
        "TABLES",
        "TTL",
        "WINDOWS",
    )
    for number, program in enumerate(
        re.findall(r"^```python\n(.*?)^```", (DOCS / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE), 1
    )
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_runs(program: str) -> None:
    assert "assert " in program
    exec(compile(program, "programs", "exec", dont_inherit=True), {"__name__": "__main__"})
