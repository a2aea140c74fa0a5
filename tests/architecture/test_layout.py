"""The folders, the links to them, and the size of files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import OUTSIDE, PACKAGES, ROOT, python_files

LONGEST_FILE = 400
LONGEST_FUNCTION = 59
LONGEST_TEST_FILE = 450
"""A specification may be longer than what it specifies."""
PUBLIC_NAMES = Path("penstock/__init__.py")
"""A list of names is as long as there are names."""


@pytest.mark.parametrize("folder", PACKAGES)
def test_penstock_links_to_every_folder(folder: str) -> None:
    link = ROOT / "penstock" / folder
    assert link.is_symlink()
    assert link.readlink() == Path("..") / folder
    assert (ROOT / folder / "__init__.py").is_file()


def test_penstock_holds_nothing_but_the_links_and_the_public_names() -> None:
    found = {entry.name for entry in (ROOT / "penstock").iterdir()} - {"__pycache__"}
    assert found == {*PACKAGES, "__init__.py", "py.typed"}


def test_files_stay_short() -> None:
    lengths = {file: (ROOT / file).read_bytes().count(b"\n") for file in python_files(*PACKAGES, *OUTSIDE)}
    too_long = {
        str(file): length
        for file, length in lengths.items()
        if file != PUBLIC_NAMES and length > (LONGEST_TEST_FILE if file.parts[0] == "tests" else LONGEST_FILE)
    }
    assert too_long == {}


def test_functions_stay_short() -> None:
    files = python_files(*PACKAGES, *OUTSIDE)
    lengths = {
        f"{file}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for file in files
        for node in _statements(ast.parse((ROOT / file).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(lengths) > len(files)
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields all statements: only in them are functions, and most of a file's nodes are parts of expressions."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from _statements(node)


def test_every_logger_is_named_after_its_module() -> None:
    named = re.compile(r"\blogger\((?!__name__\)|name: str\))")
    found = [str(file) for file in python_files(*PACKAGES) if named.search((ROOT / file).read_text())]
    assert found == []


def test_the_lock_files_are_hashed_and_name_no_host() -> None:
    for file in (ROOT / "requirements").glob("*.txt"):
        text = file.read_text()
        assert "://" not in text
        assert not re.search(r"^\s*-(?!-hash)", text, re.MULTILINE)
        for block in re.split(r"\n(?=[a-z])", text[text.index("\n", text.index("make lock")) + 1 :]):
            assert "--hash=sha256:" in block, block.splitlines()[0]
