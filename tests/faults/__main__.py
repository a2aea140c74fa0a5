"""``python -m tests.faults``: each row of the fault matrix alone, in a process of its own, and a table of what held.

``--only 12,13`` plays some. The output of pytest is shown for each row that does not hold, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "FAULT_RUNS.md"
_ROW = re.compile(r"row_(\d+)[ _]")
_ROW_OF_THE_PAGE = re.compile(r"^\| *(\d*) *\|[^|]*\|([^|]*)\|", re.MULTILINE)
_LIMIT_S = 420
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", "--numprocesses=0")


def named_by_the_page(pattern: str) -> list[tuple[int, str]]:
    """Returns what matches ``pattern`` in the table of docs/FAULT_RUNS.md, each with the row that it plays."""
    found, row = [], 0  # a line without a number continues the row above it
    for number, played in _ROW_OF_THE_PAGE.findall(PAGE.read_text()):
        row = int(number or row)
        found += [(row, test) for test in re.findall(pattern, played)]
    return found


def rows(collected: str) -> list[tuple[int, str]]:
    """Returns every test with its row, which is in its name, or in its parameters if the test plays several rows."""
    here = [line for line in collected.splitlines() if _ROW.search(line.partition("::")[2])]
    return sorted([(int(_ROW.findall(test)[-1]), test) for test in here] + named_by_the_page(r"`(tests/[^`]+)`"))


def reported(test: str) -> str:
    """Returns what happens in a test, in words; a test of another folder is shown with its file."""
    file, _, name = test.partition("::")
    if _ROW.search(name):
        return _ROW.sub("", name.removeprefix("test_")).replace("rows_10_and_11_", "").replace("_", " ")
    return f"{file}: {name.removeprefix('test_').replace('_', ' ')}".removesuffix(": ")


def play(test: str) -> tuple[str, float, str]:
    """Plays a test; returns its outcome in a word or two, the seconds it took, and its output."""
    began = time.monotonic()
    try:
        done = subprocess.run([*_PYTEST, test], cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        return "no end", time.monotonic() - began, str(error)
    held = {0: "held", 1: "VIOLATED"}.get(done.returncode, f"exit code {done.returncode}")
    return held, time.monotonic() - began, done.stdout + done.stderr


def main(arguments: Sequence[str] | None = None) -> int:
    """Plays the rows; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", default="", metavar="12,13", help="rows to play")
    only = parser.parse_args(arguments).only
    if not re.fullmatch(r"(\d+(,\d+)*)?", only):
        parser.error(f"--only {only!r} is no list of rows, such as 12,13")
    asked = {int(row) for row in only.split(",") if row}
    found = subprocess.run(
        [*_PYTEST, "--collect-only", str(HERE)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tests = rows(found.stdout)
    if nowhere := asked - {row for row, _ in tests}:
        parser.error(f"no test plays row {', '.join(map(str, sorted(nowhere)))}")
    wrong = 0
    print(f"{'row':>3}  {'held?':9} {'s':>5}  what")
    for row, test in tests:
        if asked and row not in asked:
            continue
        held, took_s, message = play(test)
        print(f"{row:3}  {held:9} {took_s:5.0f}  {reported(test)}", flush=True)
        if held != "held":
            wrong += 1
            print(message)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
