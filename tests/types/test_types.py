"""Checks of the installed package by mypy and pyright, from a folder outside of the checkout.

The programs of ``right/`` state by ``assert_type`` what must be inferred, so an install that shows the checkers nothing
fails there. In those of ``wrong/`` each line that ends in ``# error`` must be reported, and no other line.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import penstock as ps
from tests.architecture.sources import ROOT

pytestmark = pytest.mark.xdist_group("types")

HERE = Path(__file__).parent
RIGHT = sorted(file.name for file in (HERE / "right").glob("*.py"))
WRONG = sorted(file.name for file in (HERE / "wrong").glob("*.py"))
PAGES = (
    "README.md",
    "docs/BAD_RECORDS.md",
    "docs/JOINS.md",
    "docs/PROCESSORS.md",
    "docs/PROGRAMS.md",
    "docs/QUERIES.md",
    "docs/SERDES.md",
    "docs/STORES.md",
    "docs/TABLES.md",
    "docs/WINDOWS.md",
)
CHECKERS = ("mypy", "pyright")

MYPY = """
[mypy]
strict = true
[mypy-pages.*]
disallow_any_generics = false
disallow_untyped_defs = false
disallow_incomplete_defs = false
"""
"""Programs are as strict as mypy can be; pages spare the reader what says nothing about penstock."""

Faults = Mapping[str, Mapping[int, str]]
"""Per file (``wrong/tables.py``) the first message for each line that has one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, those of the pages too, in a folder from which no path leads to the checkout."""
    folder = tmp_path_factory.mktemp("programs")
    for programs in ("right", "wrong"):
        shutil.copytree(HERE / programs, folder / programs, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "names.py").write_text(
        "".join(["import penstock as ps\n", *(f"print(ps.{name})\n" for name in ps.__all__)])
    )
    # No configuration of a folder above, or of the user, counts.
    (folder / "pyrightconfig.json").write_text("{}")
    (folder / "mypy.ini").write_text(MYPY)
    (folder / "pages").mkdir()
    for page in PAGES:
        for number, program in enumerate(programs_of(page)):
            (folder / "pages" / f"{Path(page).stem.lower()}_{number}.py").write_text(program)
    return folder


@pytest.fixture(scope="module")
def faults(folder: Path) -> Mapping[str, Faults]:
    """The faults that each checker reports."""
    return {"mypy": by_mypy(folder), "pyright": by_pyright(folder)}


def programs_of(page: str) -> list[str]:
    """Returns the Python blocks of a page that are complete programs."""
    blocks = re.findall(r"^ *```python\n(.*?)^ *```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "import penstock" in block]


def by_mypy(folder: Path) -> Faults:
    """Returns mypy's faults, with the strictness that a user of a typed library chooses."""
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.py"))
    done = run(folder, "mypy", "--explicit-package-bases", "--no-incremental", "--no-pretty", *files)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    return by_line([(file, int(line), message) for file, line, message in found])


def by_pyright(folder: Path) -> Faults:
    """Returns pyright's faults, as an editor shows them that knows which Python to use."""
    done = run(folder, "pyright", "--pythonpath", sys.executable, "--outputjson", ".")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return by_line(
        [
            (str(Path(fault["file"]).relative_to(folder)), fault["range"]["start"]["line"] + 1, fault["message"])
            for fault in found
            if fault["severity"] == "error"
        ]
    )


def run(folder: Path, checker: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    command = [sys.executable, "-m", checker, *arguments]
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=300, check=False)


def by_line(found: list[tuple[str, int, str]]) -> Faults:
    faults: dict[str, dict[int, str]] = {}
    for file, line, message in found:
        faults.setdefault(file, {}).setdefault(line, message)
    return faults


@pytest.mark.submission
@pytest.mark.parametrize("program", RIGHT)
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_right_program_is_accepted_and_its_types_are_inferred(
    faults: Mapping[str, Faults], checker: str, program: str
) -> None:
    assert faults[checker].get(f"right/{program}", {}) == {}


@pytest.mark.submission
@pytest.mark.parametrize("program", WRONG)
@pytest.mark.parametrize("checker", CHECKERS)
def test_each_fault_is_reported_at_its_line_and_nothing_else(
    faults: Mapping[str, Faults], checker: str, program: str
) -> None:
    lines = (HERE / "wrong" / program).read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("  # error")}
    reported = faults[checker].get(f"wrong/{program}", {})
    assert marked
    assert {number: lines[number - 1] for number in marked - reported.keys()} == {}, "not reported"
    assert {number: reported[number] for number in reported.keys() - marked} == {}, "reported beside"


@pytest.mark.submission
@pytest.mark.parametrize("checker", CHECKERS)
def test_every_public_name_is_there_for_a_type_checker(faults: Mapping[str, Faults], checker: str) -> None:
    assert faults[checker].get("names.py", {}) == {}


@pytest.mark.submission
@pytest.mark.parametrize("checker", CHECKERS)
def test_the_programs_of_the_pages_are_accepted(faults: Mapping[str, Faults], folder: Path, checker: str) -> None:
    assert len(list((folder / "pages").iterdir())) >= len(PAGES)
    assert {file: found for file, found in faults[checker].items() if file.startswith("pages/")} == {}
