"""The name ``penstock`` belongs to another project on the package index: nothing here may ask an index for it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

OURS = "penstock-streams"
ASKS = re.compile(
    r"""\b(?:pip|pipx|uv|uv\ pip)\ (?:install|add)\b   # asks an index
        [^\n`|;&:)]*?                                  # for something else, by options and names
        [\s'"]penstock(?:\[[\w,-]+\])?(?=[\s'"=<>~!`]|$)  # and for this name
    """,
    re.MULTILINE | re.VERBOSE,
)
_TEXTS = {".py", ".md", ".yaml", ".yml", ".toml", ".txt", ""}


def test_the_distribution_is_called_penstock_streams_and_its_command_penstock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == OURS
    assert list(project["scripts"]) == ["penstock"]


def test_no_file_asks_an_index_for_penstock() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    texts = {file: file.read_text() for file in files if file.suffix in _TEXTS and _is_text(file)}
    found = {str(file.relative_to(ROOT)): ASKS.findall(text) for file, text in texts.items() if file != Path(__file__)}
    assert {name: asked for name, asked in found.items() if asked} == {}


def _is_text(file: Path) -> bool:
    return file.is_file() and not file.is_symlink() and b"\0" not in file.read_bytes()[:1024]


@pytest.mark.parametrize(
    "command",
    [
        "pip install penstock",
        "pip install 'penstock[local]'",
        'uv pip install --upgrade "penstock==0.1"',
        "pip install --find-links dist penstock boto3",
    ],
)
def test_a_command_that_asks_an_index_for_it_is_found(command: str) -> None:
    assert ASKS.search(command)


@pytest.mark.parametrize(
    "command",
    [
        "pip install penstock-streams",
        "pip install 'penstock-streams[local]'",
        "pip install dist/penstock_streams-0.1.0.tar.gz",
        "pip installs penstock/ as it is",
    ],
)
def test_a_command_that_asks_for_nothing_of_that_name_is_let_be(command: str) -> None:
    assert not ASKS.search(command)
