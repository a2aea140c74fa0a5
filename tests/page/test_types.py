"""The page's types of the server's documents are those that the server describes."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT


@pytest.mark.xdist_group("page")
def test_the_types_of_the_documents_are_what_the_server_describes(tmp_path: Path) -> None:
    made = tmp_path / "schema.d.ts"
    tool = runpy.run_path(str(ROOT / "requirements" / "page.py"))
    tool["install"]()
    assert tool["write_types"](made) == 0
    committed = ROOT / "page" / "src" / "server" / "schema.d.ts"
    assert made.read_text() == committed.read_text(), "run `make page` and commit what it writes"
