"""``penstock describe``, from the folder where the program lies."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.common.errors import ConfigError
from tests.architecture.sources import ROOT

PROGRAM = """
import penstock as ps
builder = ps.StreamsBuilder()
stream = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
stream.group_by_key().count(ps.Materialized.as_("counts")).to_stream().to("out")
app = ps.KafkaStreams(builder.build(), {"application.id": "app"})
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program in the current folder, which is not on Python's path."""
    (tmp_path / "described_program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return "described_program:app"


def test_the_text_is_kafka_streams_own(target: str) -> None:
    result = CliRunner().invoke(app, ["describe", target])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000")


def test_json_has_nodes_edges_topics_and_changelogs(target: str) -> None:
    result = CliRunner().invoke(app, ["describe", target, "--json"])
    described = json.loads(result.stdout)
    assert described["application_id"] == "app"
    [sub] = described["subtopologies"]
    assert [(node["type"], node.get("topics") or node.get("topic")) for node in sub["nodes"]] == [
        ("source", ["lines"]), ("processor", None), ("processor", None), ("sink", "out"),
    ]  # fmt: skip
    names = {node["name"] for node in sub["nodes"]}
    assert all(set(node["parents"]) <= names for node in sub["nodes"] if "parents" in node)
    assert [(store["name"], store["changelog"]) for store in sub["stores"]] == [("counts", "app-counts-changelog")]


def test_the_picture_in_the_readme_is_what_the_command_draws_now() -> None:
    result = CliRunner().invoke(app, ["describe", "examples.word_count:app", "--format", "svg"])
    assert result.exit_code == 0, result.output
    assert result.stdout == (ROOT / "docs" / "pictures" / "word-count.svg").read_text()
    assert 'src="docs/pictures/word-count.svg"' in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("form", "begin"),
    [
        ("text", "Topologies:\n"),
        ("json", '{\n  "application_id": "app"'),
        ("svg", "<svg "),
        ("mermaid", "flowchart TD\n"),
    ],
)
def test_a_topology_is_printed_in_four_forms(target: str, form: str, begin: str) -> None:
    result = CliRunner().invoke(app, ["describe", target, "--format", form])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(begin)
    assert result.stdout.endswith("\n")


def test_json_is_asked_for_in_either_way_and_not_together_with_another_form(target: str) -> None:
    one, other = (CliRunner().invoke(app, ["describe", target, *how]) for how in (["--json"], ["--format", "json"]))
    assert one.stdout == other.stdout
    refused = CliRunner().invoke(app, ["describe", target, "--json", "--format", "svg"])
    assert isinstance(refused.exception, ConfigError)
    assert "--json and --format svg ask for two forms" in str(refused.exception)
