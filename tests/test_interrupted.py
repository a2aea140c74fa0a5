"""A run of the tests that is ended from outside leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import eventually


@pytest.mark.submission
def test_a_run_in_groups_that_gets_sigterm_stops_its_broker(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--numprocesses=2",
        f"--basetemp={tmp_path}/run",
    ]
    run = psutil.Popen([*command, "tests/kafka/test_isolation.py"], stdout=subprocess.DEVNULL)
    found: list[psutil.Process] = []

    def brokers() -> list[psutil.Process]:
        found[:] = [it for it in run.children(recursive=True) if it.name() == "java"]
        return found

    try:
        eventually(lambda: bool(brokers()), "the broker of the tests is started")
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(60)
    assert [it.pid for it in found if it.is_running()] == []
