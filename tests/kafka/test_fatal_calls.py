"""Calls by which librdkafka 2.16 may end the whole process are made nowhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FATAL = {
    "list_consumer_group_offsets": "a segmentation fault, if the group or the topic is not there yet (issue 5040)",
    "describe_consumer_groups": "an assertion fails when the coordinator's connection breaks (pull request 5397)",
    "alter_consumer_group_offsets": "the same",
    "delete_consumer_groups": "the same",
}
"""Every admin operation that goes to a group's coordinator."""
DELETES_A_GROUP = ROOT / "tests" / "faults" / "test_group.py"
"""The test that deletes the group on purpose: its broker stays, and no other call does it."""
_NOT_OURS = {".venv", "penstock", "dist", "build"}


def sources() -> list[Path]:
    """Ours, without the links in ``penstock/``; tests that start a broker are ended by such a fault like a program."""
    return [
        path
        for folder in ROOT.iterdir()
        if folder.is_dir() and folder.name not in _NOT_OURS and not folder.name.startswith(".")
        for path in folder.rglob("*.py")
        if path != DELETES_A_GROUP
    ]


def names(source: str) -> Iterator[str]:
    """Attributes and imported names in ``source``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def test_sources_are_found() -> None:
    assert ROOT / "kafka" / "admin.py" in sources()


@pytest.mark.parametrize("call", FATAL)
def test_no_source_makes_the_call(call: str) -> None:
    named = [path for path in sources() if call in path.read_text()]
    found = [str(path.relative_to(ROOT)) for path in named if call in names(path.read_text())]
    assert not found, f"{call}: {FATAL[call]}"


def test_such_a_call_would_be_found() -> None:
    assert "describe_consumer_groups" in names("answers = client.describe_consumer_groups(['g'])")
    assert "describe_consumer_groups" not in names("'''describe_consumer_groups'''")
