"""``penstock top`` on a terminal, with answers of a coordinator that are made up."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.pseudo_terminal import CONTROL_C, OnTerminal, on_terminal
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys, termios, time
from dataclasses import replace
from pathlib import Path
from penstock.cli import main, top
from penstock.cli.top_source import Heard, SilentError
from penstock.cluster.read_side import ApplicationState
from penstock.common.errors import ApplicationStateError
from tests.cli.top_status import FUNCTIONS, STATUS

folder = Path(sys.argv.pop())

class Source:
    def __init__(self, application):
        pass

    def close(self):
        pass

    def __call__(self):
        os.write(1, b"a line of Ray\\n")
        time.sleep(0.05)
        if (folder / "silent").exists():
            raise SilentError("it is being restarted")
        if (folder / "gone").exists():
            raise ApplicationStateError("application 'app' does not run")
        if (folder / "failed").exists():
            return Heard(replace(STATUS, state=ApplicationState.ERROR, error="the disk is full"))
        return Heard(STATUS, FUNCTIONS)

top.StatusSource, top._SILENT_AFTER_S = Source, 0.3
former = termios.tcgetattr(0)
try:
    main.main()
finally:
    print("terminal restored:", termios.tcgetattr(0) == former)
"""


@contextmanager
def running(tmp_path: Path, **environ: str) -> Iterator[OnTerminal]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    with on_terminal("-c", PROGRAM, "top", "app", tmp_path, cwd=tmp_path, env=env) as it:
        await_text(it, "1 of 5 tasks lacks an actor")
        yield it


def await_text(it: OnTerminal, text: str, begin: int = 0) -> None:
    """Wait until ``text`` is drawn after the first ``begin`` characters."""
    eventually(lambda: text in it.raw[begin:], f"{text!r} on the screen")


def press(it: OnTerminal, keys: bytes, then: str) -> None:
    """Type ``keys`` and wait for a frame that has ``then``; each frame is drawn as a whole."""
    begin = len(it.raw)
    it.press(keys)
    await_text(it, then, begin)


def restored(it: OnTerminal) -> None:
    left = it.raw.rpartition("\x1b[?1049l")[2]
    assert "\x1b[?1049h" in it.raw, "it uses the alternate screen"
    assert "terminal restored: True" in left


def test_keys_a_resize_and_a_coordinator_that_does_not_answer(tmp_path: Path) -> None:
    with running(tmp_path) as it:
        press(it, b"h", then="sort by BEHIND, TASK")
        press(it, b"h", then="q quit")
        press(it, b"w", then="program.py:12")
        press(it, b"w", then="why slow")
        press(it, b"/tw", then="filter: tw_")
        press(it, b"\r", then="filter: tw\x1b")
        press(it, b"p", then="PAUSED")
        begin = len(it.raw)
        it.resize(lines=8, columns=30)
        await_text(it, "1 of 5 tasks lacks an actor\x1b", begin)
        it.resize(lines=50, columns=160)
        (tmp_path / "silent").touch()
        await_text(it, "The coordinator has not answered since")
        begin = len(it.raw)
        (tmp_path / "silent").unlink()
        await_text(it, "1 of 5 tasks lacks an actor", begin)
        it.press(b"q")
        assert it.wait() == 0
        restored(it)
        assert "a line of Ray" not in it.raw
        assert "\x1b[31m" in it.raw, "colours"


@pytest.mark.parametrize(("terminal", "draws"), [("xterm", True), ("dumb", False)])
def test_a_terminal_that_cannot_move_its_cursor_is_not_drawn_on(terminal: str, draws: bool, tmp_path: Path) -> None:
    program = f"import os; os.environ['TERM'] = {terminal!r}; from penstock.cli.top import can_draw; print(can_draw())"
    with on_terminal("-c", program, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}) as it:
        assert it.wait() == 0
        assert it.lines == [str(draws)]


def test_ctrl_c_restores_the_terminal_and_shows_no_traceback(tmp_path: Path) -> None:
    with running(tmp_path) as it:
        it.press(CONTROL_C)
        assert it.wait() == 130
        restored(it)
        assert "Traceback" not in it.raw


def test_sigterm_restores_the_terminal_and_no_color_leaves_out_colours(tmp_path: Path) -> None:
    with running(tmp_path, NO_COLOR="1") as it:
        it.process.send_signal(signal.SIGTERM)
        assert it.wait() == 128 + signal.SIGTERM
        restored(it)
        assert "\x1b[31m" not in it.raw


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("gone", 0, "Application app has ended"),
        ("failed", 1, "application 'app' has ended in ERROR: the disk is full"),
    ],
)
def test_top_ends_with_the_application_and_shows_how_it_ended(end: str, code: int, said: str, tmp_path: Path) -> None:
    with running(tmp_path) as it:
        (tmp_path / end).touch()
        assert it.wait() == code
        restored(it)
        assert said in it.raw.rpartition("\x1b[?1049l")[2]
