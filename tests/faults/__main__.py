"""``python -m tests.faults``: each row of the fault matrix alone, in a process of its own, and a table of what held.

``--only 12,13`` plays some. Whatever does not hold is shown with what pytest says of it, and the exit code is 1.
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
_ROW = re.compile(r"row_(\d+)[ _]")
_LIMIT_S = 420
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", "--numprocesses=0")


def row_of(test: str) -> int:
    """The number of its row: in the parameters, where a test plays several."""
    return int(_ROW.findall(test)[-1])


def rows(collected: str) -> list[str]:
    """Every test, in the order of its rows."""
    return sorted((line for line in collected.splitlines() if _ROW.search(line.partition("::")[2])), key=row_of)


def named(test: str) -> str:
    """What happens in it, in words."""
    name = test.partition("::test_")[2]
    return _ROW.sub("", name).replace("rows_10_and_11_", "").replace("_", " ")


def play(test: str) -> tuple[str, float, str]:
    """Whether it held, how long it took, and what was said."""
    began = time.monotonic()
    try:
        done = subprocess.run([*_PYTEST, test], cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        return "no end", time.monotonic() - began, str(error)
    held = {0: "held", 1: "VIOLATED"}.get(done.returncode, f"exit code {done.returncode}")
    return held, time.monotonic() - began, done.stdout + done.stderr


def main(arguments: Sequence[str] | None = None) -> int:
    """Play them; how it went, as an exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", default="", metavar="12,13", help="rows to play")
    only = {int(row) for row in parser.parse_args(arguments).only.split(",") if row}
    found = subprocess.run(
        [*_PYTEST, "--collect-only", str(HERE)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wrong = 0
    print(f"{'row':>3}  {'held?':9} {'s':>5}  what")
    for test in rows(found.stdout):
        if only and row_of(test) not in only:
            continue
        held, took_s, said = play(test)
        print(f"{row_of(test):3}  {held:9} {took_s:5.0f}  {named(test)}", flush=True)
        if held != "held":
            wrong += 1
            print(said)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
