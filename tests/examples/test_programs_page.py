"""The Python of the pages: programs run, and their assertions hold; files are shown as they are; fragments are real."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

import penstock as ps

ROOT = Path(__file__).parents[2]
BLOCKS = [
    pytest.param(file, program, id=f"{page.relative_to(ROOT)}-{number}")
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
    for number, (file, program) in enumerate(
        re.findall(
            r"^(?:<!-- (?P<file>\S+) -->\n)? *```(?:python|py)\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE
        ),
        1,
    )
]
SHOWN = [block for block in BLOCKS if block.values[0]]
"""Parts of files, which a comment before the block names."""
PROGRAMS = [
    block for block in BLOCKS if not block.values[0] and re.search("^ *assert ", str(block.values[1]), re.MULTILINE)
]
FRAGMENTS = [block for block in BLOCKS if block not in SHOWN and block not in PROGRAMS]
VARIABLES = {"ps": ps, "app": ps.KafkaStreams, "running": ps.RunningApplication}
"""Names that fragments use without defining them."""


@pytest.mark.parametrize(("file", "program"), PROGRAMS)
def test_a_block_of_a_page_runs(file: str, program: str) -> None:
    exec(compile(program, "programs", "exec", dont_inherit=True), {"__name__": "__main__"})


@pytest.mark.parametrize(("file", "program"), SHOWN)
def test_a_file_is_shown_as_it_is(file: str, program: str) -> None:
    """A reader of the tutorial has its newest step as ``program.py``."""
    assert program in re.sub(r"examples\.tutorial\.step_\w+", "program", (ROOT / file).read_text())


@pytest.mark.parametrize(("file", "program"), FRAGMENTS)
def test_a_fragment_is_python_and_uses_names_that_there_are(file: str, program: str) -> None:
    for node in ast.walk(ast.parse(textwrap.dedent(program))):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in VARIABLES:
                assert hasattr(VARIABLES[name], attribute), f"{name}.{attribute}"
            case ast.Attribute(value=ast.Attribute(value=ast.Name("ps"), attr=outer), attr=attribute):
                assert hasattr(getattr(ps, outer), attribute), f"ps.{outer}.{attribute}"


def test_the_pages_have_blocks_of_each_kind() -> None:
    assert min(len(SHOWN), len(PROGRAMS), len(FRAGMENTS)) > 5
