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
ELSEWHERE = {
    "tests/actors/test_commit_killed.py": 1,
    "tests/cluster/test_end_to_end.py::test_a_killed_stream_actor_is_replaced_and_its_successor_catches_up": 1,
    "tests/cluster/test_end_to_end.py::test_a_killed_coordinator_comes_back_and_finds_its_actors": 3,
    "tests/elastic/test_elastic.py::"
    "test_whatever_happens_to_actors_and_nodes_every_record_counts_once[tests.elastic.lost_node]": 5,
    "tests/elastic/test_elastic.py::"
    "test_whatever_happens_to_actors_and_nodes_every_record_counts_once[tests.elastic]": 6,
    "tests/cluster/test_lost_session.py": 9,
    "tests/kafka/test_broker_restart.py": 9,
    "tests/elastic/test_elastic.py::"
    "test_whatever_happens_to_actors_and_nodes_every_record_counts_once[tests.elastic.two_clusters]": 19,
    "tests/actors/test_exactly_once.py::test_a_zombie_that_wakes_up_writes_nothing": 17,
    "tests/actors/test_faults.py": 23,
    "tests/actors/test_full_disk.py": 24,
    "tests/actors/test_stream_loop_start.py::test_corrupt_stores_are_deleted_and_restored": 26,
    "tests/actors/test_damaged_stores.py": 26,
    "tests/actors/test_state_on_disk.py": 27,
    "tests/actors/test_state_home.py": 27,
    "tests/tasks/test_errors.py": 30,
    "tests/kafka/test_transactions.py": 30,
    "tests/cluster/test_new_partitions.py": 32,
    "tests/cluster/test_ray_job.py": 33,
    "tests/cluster/test_topology_difference.py": 34,
}
"""Rows that other tests play, most of them without a cluster."""
_ROW = re.compile(r"row_(\d+)[ _]")
_LIMIT_S = 420
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", "--numprocesses=0")


def row_of(test: str) -> int:
    """The number of its row: in the parameters, where a test plays several."""
    return ELSEWHERE[test] if test in ELSEWHERE else int(_ROW.findall(test)[-1])


def rows(collected: str) -> list[str]:
    """Every test, in the order of its rows."""
    here = [line for line in collected.splitlines() if _ROW.search(line.partition("::")[2])]
    return sorted((*here, *ELSEWHERE), key=row_of)


def named(test: str) -> str:
    """What happens in it, in words; of another folder its file."""
    if test in ELSEWHERE:
        file, _, name = test.partition("::")
        return f"{file}: {name.removeprefix('test_').replace('_', ' ')}".removesuffix(": ")
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
    only = parser.parse_args(arguments).only
    if not re.fullmatch(r"(\d+(,\d+)*)?", only):
        parser.error(f"--only {only!r} is no list of rows, such as 12,13")
    asked = {int(row) for row in only.split(",") if row}
    found = subprocess.run(
        [*_PYTEST, "--collect-only", str(HERE)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tests = rows(found.stdout)
    if nowhere := asked - set(map(row_of, tests)):
        parser.error(f"no test plays row {', '.join(map(str, sorted(nowhere)))}")
    wrong = 0
    print(f"{'row':>3}  {'held?':9} {'s':>5}  what")
    for test in tests:
        if asked and row_of(test) not in asked:
            continue
        held, took_s, said = play(test)
        print(f"{row_of(test):3}  {held:9} {took_s:5.0f}  {named(test)}", flush=True)
        if held != "held":
            wrong += 1
            print(said)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
