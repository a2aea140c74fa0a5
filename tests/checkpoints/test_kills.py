"""Kill -9 of a process that uploads, again and again: the newest checkpoint is whole each time."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.checkpoints.fetching import fetch_newest
from penstock.checkpoints.fitness import ExpectedState, ExpectedStore
from penstock.checkpoints.repository import CheckpointRepository
from penstock.objects.storage import ObjectLocation
from penstock.state.disk.task_stores import open_task_stores
from tests.architecture.sources import ROOT
from tests.checkpoints.uploading import BUILDERS, ROW
from tests.waiting import PATIENCE_S

EXPECTED = ExpectedState({"numbers": ExpectedStore(BUILDERS[0].layout, "numbers", "id")}, {})


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_killed_uploader_loses_no_checkpoint_and_leaves_no_half_of_one(kills: int, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    repository = CheckpointRepository(ObjectLocation(str(storage)).open(), "app")
    saved, operations = 0, Counter[str]()
    for epoch in range(1, kills + 1):
        died = subprocess.run(
            [sys.executable, "-m", "tests.checkpoints.uploading", str(tmp_path), str(storage), str(epoch)],
            cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert died.returncode == -signal.SIGKILL, died.stderr
        operations[died.stderr.split()[-1]] += 1
        saved = max([saved, *map(int, died.stdout.split())])
        folder = tmp_path / f"fetched-{epoch}"
        found = fetch_newest(repository, "0_0", EXPECTED, folder)
        assert (found is not None) or saved == 0
        if found is None:
            continue
        offset = found.manifest.stores["numbers"].changelog_offset
        assert offset is not None
        assert offset >= saved
        stores = open_task_stores(folder, BUILDERS)
        assert list(stores.store("numbers").scan(None, None)) == [
            (b"%08d" % number, ROW) for number in range(1, offset + 1)
        ]
        assert stores.changelog_offset("numbers") == offset
        stores.close()
    print("kills", dict(operations))
    assert saved > 0
