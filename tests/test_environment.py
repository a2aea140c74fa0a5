"""The lines that ``make environment`` prints."""

from __future__ import annotations

import importlib.util
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

INSTALL = Path(__file__).parents[1] / "requirements" / "install.py"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("install", INSTALL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for stamp in ("PACKAGES_STAMP", "COMPILED_STAMP"):
        monkeypatch.setattr(module, stamp, tmp_path / stamp)
    monkeypatch.setattr(module, "BUILT", ())
    monkeypatch.setattr(module, "_one_at_a_time", nullcontext)
    return module


def test_a_new_environment_takes_quiet_steps_and_ends_with_a_last_word(
    install: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(install, "_run", lambda *command: commands.append(command))
    install.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "packages, once; a few minutes at most" in lines[0]
    assert lines[-1] == f"{install.ENVIRONMENT} is ready."
    assert all("--quiet" in command for command in commands if "pip" in command)
    install.main()
    assert capsys.readouterr().out == "", "one that fits needs no word"
