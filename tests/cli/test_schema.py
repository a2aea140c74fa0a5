"""``penstock schema check``: a program in the current folder, and a registry in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import penstock as ps
from penstock.cli.main import app
from penstock.registry.contracts import Schema

PROGRAM = """
from dataclasses import dataclass
import penstock as ps

@dataclass
class Item:
    name: str
    cents: int = 0

items = ps.Serdes.avro(Item)
builder = ps.StreamsBuilder()
stream = builder.stream("in", ps.Consumed.with_(ps.Serdes.string(), items))
stream.group_by_key().reduce(lambda one, other: one, ps.Materialized.as_("last"))
stream.to("out", ps.Produced.with_(ps.Serdes.string(), items))
app = ps.KafkaStreams(
    builder.build(), {"application.id": "checked", "schema.registry.url": "mock://check"}
)
"""


@pytest.fixture
def registry() -> Iterator[ps.MockSchemaRegistry]:
    yield ps.MockSchemaRegistry("check")
    ps.MockSchemaRegistry.drop("check")


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "checked_program.py").write_text(PROGRAM)
    yield lambda *options: CliRunner(env={"COLUMNS": "200"}).invoke(
        app, ["schema", "check", "checked_program:app", *options]
    )
    sys.modules.pop("checked_program", None)


def item(*fields: dict[str, str]) -> Schema:
    return Schema(json.dumps({"type": "record", "name": "Item", "fields": list(fields)}))


NAME = {"name": "name", "type": "string"}


def test_new_subjects_are_compatible_and_nothing_is_registered(
    check: Callable[..., Result], registry: ps.MockSchemaRegistry
) -> None:
    result = check()
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("Nothing was compared: mock://check is a registry in the memory of this process")
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["compatible", "checked-last-changelog-value", "avro(Item)", "written"],
        ["compatible", "in-value", "avro(Item)", "read"],
        ["compatible", "out-value", "avro(Item)", "written"],
    ]
    assert registry.subjects == []


def test_a_schema_that_the_registry_would_refuse_has_exit_code_3(
    check: Callable[..., Result], registry: ps.MockSchemaRegistry
) -> None:
    registry.register("out-value", item(NAME, {"name": "cents", "type": "string"}), False)
    result = check()
    assert result.exit_code == 3, result.output
    assert "INCOMPATIBLE  out-value" in result.output
    assert result.stderr == ""
    assert "out-value: Item.cents: was written as string, and is read as long" in result.output


def test_a_topic_whose_newest_records_cannot_be_read_has_exit_code_3(
    check: Callable[..., Result], registry: ps.MockSchemaRegistry
) -> None:
    registry.register("in-value", item({"name": "title", "type": "string"}), False)
    result = check("--json")
    assert result.exit_code == 3, result.output
    found = {each["subject"]: each for each in json.loads(result.output)}
    assert found["in-value"] == {
        "subject": "in-value",
        "serde": "avro(Item)",
        "use": "read",
        "compatible": False,
        "conflicts": ["version 1, id 1: Item.name: was not written, and the reader has no default for its string"],
    }
    assert found["out-value"]["compatible"] is True


def test_a_registry_that_does_not_answer_is_an_error(
    check: Callable[..., Result], registry: ps.MockSchemaRegistry
) -> None:
    with registry.outage():
        result = check()
    assert result.exit_code == 1
    assert "cannot be checked: the schema registry mock://check does not answer" in str(result.exception)


def test_a_program_without_a_registry_says_so(check: Callable[..., Result], tmp_path: Path) -> None:
    text = PROGRAM.replace("ps.Serdes.avro(Item)", "ps.Serdes.json(Item)")
    (tmp_path / "checked_program.py").write_text(text)
    result = check()
    assert (result.exit_code, result.output) == (0, "The program uses no schema registry.\n")
