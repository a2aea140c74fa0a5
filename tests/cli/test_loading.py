"""The line that an error of an import names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.cli.loading import load_application
from penstock.common.errors import ConfigError


def test_an_import_that_fails_within_penstock_names_the_users_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "fails_within.py"
    program.write_text("import penstock as ps\n\nps.TimeWindows.of_size_and_grace(5, -1)\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ConfigError) as refused:
        load_application("fails_within:app")
    assert str(refused.value).endswith(f"({program}, line 3)")
    assert "TimeWindows: the grace period after_window_end may not be negative" in str(refused.value)


def test_an_import_that_cannot_be_read_names_no_line_of_penstock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_written.py").write_text("def broken(:\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ConfigError, match=r"SyntaxError.*half_written.py, line 1") as refused:
        load_application("half_written:app")
    assert "loading.py" not in str(refused.value)
