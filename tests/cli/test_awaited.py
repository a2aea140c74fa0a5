"""The time between a command and its table: the reader sees what is awaited."""

from __future__ import annotations

import importlib
import io
from typing import Any

import pytest
from rich.console import Console

from penstock.cli.run import _awaiting
from penstock.cluster.ray_cluster.rays_lines import plain_rays_lines


def test_a_terminal_shows_what_is_awaited_in_one_line_that_goes_away() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, legacy_windows=False)
    with _awaiting(console) as awaits:
        awaits("Asking the broker at [::1]:9092 about the topics")
        console.print("a line above it")
    assert "Asking the broker at [::1]:9092 about the topics …" in shown.getvalue()
    assert "\x1b[?25h" in shown.getvalue(), "the cursor is back"


def test_a_pipe_gets_a_plain_line_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    with _awaiting(Console(file=io.StringIO())) as awaits:
        awaits("Connecting to Ray")
        awaits("Starting application shop")
    assert capsys.readouterr().out == "Connecting to Ray …\nStarting application shop …\n"


def test_ray_prints_without_colours_and_nothing_of_calls_that_it_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    worker: Any = importlib.import_module("ray._private.worker")
    printed: list[dict[str, Any]] = []
    monkeypatch.delenv("RAY_COLOR_PREFIX", raising=False)
    monkeypatch.setattr(worker, "print_to_stdstream", lambda data, ignore_prefix: printed.append(data))
    plain_rays_lines()
    plain_rays_lines()
    retried = "Task CoordinatorActor.status failed. There are infinite retries remaining, so the task will be retried."
    worker.print_to_stdstream({"lines": [retried], "pid": "raylet"}, ignore_prefix=False)
    worker.print_to_stdstream({"lines": [retried, "out of memory"], "pid": "raylet"}, ignore_prefix=False)
    assert [data["lines"] for data in printed] == [["out of memory"]]
    lines = io.StringIO()
    worker.print_worker_logs({"lines": ["a line"], "pid": 7, "ip": "1", "localhost": "1"}, lines)
    assert lines.getvalue() == "(pid=7) a line\n"
