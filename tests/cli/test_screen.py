"""The terminal shows the table alone, and everything else is in a file."""

from __future__ import annotations

import os
import pty
import stat
from pathlib import Path

import pytest

from penstock.cli.screen import Terminal, log_file
from tests.cli.pseudo_terminal import on_terminal

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, subprocess, sys
from pathlib import Path
from penstock.cli.screen import terminal

print("before")
try:
    with terminal(Path(sys.argv[1])) as screen:
        screen.print("table", screen.width)
        print("python's line")
        print("python's error", file=sys.stderr)
        os.write(1, b"C's line\\n")
        os.write(2, b"C's error\\n")
        subprocess.run(["echo", "a child's line"])
        raise ValueError("a bad moment")
except ValueError as error:
    print("after", error)
    print("the cause", file=sys.stderr)
"""


def test_output_of_others_goes_to_the_file_and_the_terminal_is_restored(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with on_terminal("-c", PROGRAM, log, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}) as it:
        assert it.wait() == 0
    assert it.lines == ["before", "table 160", "after a bad moment", "the cause"]
    written = log.read_text().splitlines()
    assert sorted(written) == ["C's error", "C's line", "a child's line", "python's error", "python's line"]


def test_a_terminal_without_a_window_size_is_taken_for_one_of_80_by_24() -> None:
    master, slave = pty.openpty()
    with os.fdopen(master, "wb"), os.fdopen(slave, "w") as shown:
        assert os.get_terminal_size(slave) == (0, 0)
        assert Terminal(file=shown).size == (80, 24)


def test_the_log_is_a_new_file_for_its_owner_alone(tmp_path: Path) -> None:
    one, other = (log_file(tmp_path / "state", "app") for _ in range(2))
    assert one != other
    assert one.parent == tmp_path / "state"
    assert one.name.startswith("app-")
    assert stat.S_IMODE(one.stat().st_mode) == 0o600


def test_the_log_goes_elsewhere_where_the_state_directory_is_not_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    assert log_file(tmp_path / "file" / "state", "app").parent == tmp_path
