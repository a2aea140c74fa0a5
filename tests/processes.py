"""Signals to processes that a test did not start itself: never by pid alone, which may be another process's by now."""

from __future__ import annotations

import signal

import psutil


def signal_ray_process(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process of a Ray that this process has started. Fails if the pid belongs to anything else: a
    worker of the test run was once ended without a word."""
    process = psutil.Process(pid)  # it notes when the process was created, and signals no other
    title = (process.cmdline() or [""])[0]
    assert title.startswith("ray::"), f"process {pid} is {title!r}, and none of Ray's"
    family = {each.pid for each in psutil.Process().children(recursive=True)}
    assert pid in family, f"process {pid} ({title}) belongs to another Ray"
    process.send_signal(number)


def has_ended(process: psutil.Process) -> bool:
    """Returns True if the process has ended, even if nobody has collected its exit code yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def is_alive(pid: int) -> bool:
    """Returns True if process ``pid`` exists and has not ended."""
    try:
        return not has_ended(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False
