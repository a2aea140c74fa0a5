"""Files that other processes read while they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common.files import write_whole


def test_the_new_text_takes_the_place_of_the_old_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "note"
    for text in ("old", "new\n"):
        write_whole(file, text)
        assert file.read_text() == text
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "note"
    write_whole(file, "old")

    def full(path: Path, text: str) -> int:
        with path.open("w") as half:
            half.write(text[:1])
        raise OSError("no space left on the device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space left"):
        write_whole(file, "new")
    assert file.read_text() == "old"


def test_permissions_are_there_before_the_file_is(tmp_path: Path) -> None:
    file = tmp_path / "run"
    write_whole(file, "#!/bin/sh\n", mode=0o755)
    assert file.stat().st_mode & 0o777 == 0o755
