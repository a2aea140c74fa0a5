"""The word count, and the program that the README shows, without a broker."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from examples.word_count import app as example
from examples.word_count import identifiers
from penstock.cli import demo_program
from tests.architecture.sources import imports_of, python_files

README = Path(__file__).parents[2] / "README.md"
LINES = ["def add(self, a, b):", "    return self.total + a + b", "", "été = 1"]


def counts(app: ps.KafkaStreams) -> dict[str | None, int | None]:
    with ps.TopologyTestDriver(app.topology, {"application.id": app.application_id}) as driver:
        lines = driver.create_input_topic("lines", ps.Serdes.string(), ps.Serdes.string())
        lines.pipe_value_list(LINES)
        output = driver.create_output_topic("word-counts", ps.Serdes.string(), ps.Serdes.long())
        return output.read_key_values_to_map()


@pytest.fixture
def readme_app() -> ps.KafkaStreams:
    """The application of the README's program."""
    program = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert program is not None
    names: dict[str, Any] = {"__name__": "readme"}
    exec(program[1], names)
    app = names["app"]
    assert isinstance(app, ps.KafkaStreams)
    return app


def test_the_example_counts_every_identifier() -> None:
    assert counts(example) == dict(Counter(re.findall(r"[^\W\d]\w*", "\n".join(LINES))))
    assert counts(example)["self"] == 2


def test_the_program_of_the_readme_counts_every_word(readme_app: ps.KafkaStreams) -> None:
    assert counts(readme_app) == dict(Counter(" ".join(LINES).split()))


def test_the_demo_runs_the_same_program() -> None:
    """Written twice, as an installed penstock has no examples, and an example is to be read in one piece."""
    assert demo_program.topology().describe() == example.topology.describe()
    assert [demo_program.identifiers(line) for line in LINES] == [identifiers(line) for line in LINES]


def test_the_examples_use_public_names_alone() -> None:
    files = [file for file in python_files("examples") if file.parts[0] == "examples"]
    assert files
    modules = {found.module for file in files for found in imports_of(file)}
    assert {module for module in modules if module.split(".")[0] == "penstock"} == {"penstock"}
