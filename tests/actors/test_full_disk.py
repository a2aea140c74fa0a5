"""A full disk: the actor ends with that reason; when there is room again, nothing is lost and nothing counts twice."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

_HERE = Path(__file__).parents[2]
_ALONE = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
"""In a file system that only the process itself sees, and that ends with it."""


def _may_mount(where: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run([*_ALONE, f"mount -t tmpfs tmpfs '{where}'"], check=False, capture_output=True)
    return tried.returncode == 0


@pytest.mark.parametrize(
    ("case", "guarantee"), [("commit", "at_least_once"), ("commit", "exactly_once_v2"), ("restore", "at_least_once")]
)
def test_a_full_disk_ends_the_actor_with_words_and_loses_nothing(case: str, guarantee: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if not _may_mount(disk):
        pytest.skip("no file system can be mounted here")
    run = f"'{sys.executable}' -m tests.actors.full_disk {case} '{disk}' {guarantee}"
    ended = subprocess.run(
        [*_ALONE, f"mount -t tmpfs -o size=2m tmpfs '{disk}' && {run}"],
        cwd=_HERE, check=False, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
