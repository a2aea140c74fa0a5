"""An actor notices the end of its raylet, also if other processes are between the two."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from subprocess import PIPE

import psutil
import pytest

from penstock.actors.process.raylet import Raylet

_KNOWS_ITS_PID = "import os, sys; sys.argv.append(str(os.getpid()))"
# Starts the program that its arguments name, and stays.
_STARTER = "import subprocess, sys, time; p = subprocess.Popen(sys.argv[1:]); p.wait(); time.sleep(600)"
_WORKER = """
import os, sys, time
os.environ["RAY_RAYLET_PID"] = sys.argv[1]
from penstock.actors.process.raylet import Raylet
raylet = Raylet.above_this_process()
print(os.getppid(), raylet.has_ended(), flush=True)
until = time.monotonic() + 300
while not raylet.has_ended() and time.monotonic() < until:
    time.sleep(0.01)
print(raylet.has_ended(), flush=True)
"""


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_without_others_between_it_is_the_parent() -> None:
    clock, above = Clock(), [4711]
    raylet = Raylet([lambda: above[0]], clock)
    assert not raylet.has_ended()
    above[0] = 1
    assert not raylet.has_ended(), "it looked a moment ago"
    clock.now_s += 0.05
    assert raylet.has_ended()


def test_it_has_ended_if_the_process_between_has_another_parent() -> None:
    clock, above = Clock(), [4711]
    raylet = Raylet([lambda: 4712, lambda: above[0]], clock)
    assert not raylet.has_ended()
    above[0] = 1
    clock.now_s += 0.05
    assert raylet.has_ended()


def test_a_system_that_hides_processes_of_others_does_not_keep_an_actor_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hidden(process: psutil.Process) -> None:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setenv("RAY_RAYLET_PID", "1")
    monkeypatch.setattr(psutil.Process, "parent", hidden)
    assert not Raylet.above_this_process().has_ended()


def test_a_raylet_pid_in_the_environment_that_is_no_ancestor_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container, the raylet's number belongs to another process or to none."""
    monkeypatch.setenv("RAY_RAYLET_PID", "999999999")
    assert not Raylet.above_this_process().has_ended()


@pytest.mark.parametrize("between", [0, 1, 2])
def test_the_end_of_a_raylet_is_seen_behind_other_processes(between: int) -> None:
    chain = [sys.executable, "-c", _STARTER] * between + [sys.executable, "-c", _WORKER]
    raylet = psutil.Popen([sys.executable, "-c", f"{_KNOWS_ITS_PID}\n{_STARTER}", *chain], stdout=PIPE, text=True)
    started: list[psutil.Process] = [raylet]
    try:
        parent, ended = raylet.stdout.readline().split()
        started += raylet.children(recursive=True)
        assert ended == "False"
        assert (int(parent) == raylet.pid) == (between == 0)
        raylet.kill()
        assert raylet.stdout.readline() == "True\n"
    finally:
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        raylet.wait()
