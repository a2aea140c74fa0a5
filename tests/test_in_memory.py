"""The files of tests, which are in memory only if there is room."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests import in_memory


@pytest.mark.parametrize(
    ("on_disk", "in_ram", "room"), [(8 << 30, 8 << 30, True), (64 << 20, 8 << 30, False), (8 << 30, 2 << 30, False)]
)
def test_there_is_room_only_in_a_folder_and_a_memory_that_are_large(
    on_disk: int, in_ram: int, room: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=on_disk))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=in_ram))
    assert in_memory.has_room(tmp_path) is room
    assert not in_memory.has_room(tmp_path / "none")


@pytest.mark.parametrize(
    ("given", "room", "place"), [(None, True, "memory"), (None, False, None), ("own", True, "own")]
)
def test_files_are_in_memory_unless_there_is_no_room_or_another_place_is_given(
    given: str | None, room: bool, place: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    monkeypatch.setattr(in_memory, "FOLDER", Path("memory"))
    monkeypatch.setattr(in_memory, "has_room", lambda folder: room)
    monkeypatch.delenv("PYTEST_DEBUG_TEMPROOT", raising=False)
    if given is not None:
        monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", given)
    in_memory.keep_files()
    assert tempfile.tempdir == os.environ.get("PYTEST_DEBUG_TEMPROOT") == place


def test_after_a_run_its_files_are_deleted_only_if_they_are_in_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_disk, memory = tmp_path / "disk", tmp_path / "memory"
    for run in (on_disk / "run", memory / "run"):
        (run / "a test").mkdir(parents=True)
    monkeypatch.setattr(in_memory, "FOLDER", memory)
    in_memory.delete(on_disk / "run")
    in_memory.delete(memory / "run")
    assert (on_disk / "run").is_dir()
    assert list(memory.iterdir()) == []
