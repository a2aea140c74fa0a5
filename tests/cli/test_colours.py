"""Colours of all commands: NO_COLOR, FORCE_COLOR, and outputs that are no terminals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.cli.output import console

CLI = Path(__file__).parents[2] / "cli"


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": ""}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_a_pipe_has_colours_only_by_force_and_is_no_terminal(
    environ: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    made = console()
    made.print("wrong", style="red")
    assert ("\x1b[31m" in capsys.readouterr().out) == coloured
    assert not made.is_terminal, "a live view in a log file cannot be read"


def test_all_consoles_of_commands_are_made_in_one_place() -> None:
    makers = {path.name for path in CLI.glob("*.py") if re.search(r"(?<![\w.])Console\(", path.read_text())}
    assert makers - {"screen.py"} == {"output.py"}
