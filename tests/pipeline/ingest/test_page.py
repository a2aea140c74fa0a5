"""The examples of docs/INGEST.md run, and print what the page shows."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from tests.waiting import eventually

PAGE = (Path(__file__).parents[3] / "docs" / "INGEST.md").read_text()
BLOCKS = re.findall(r"^```(python|sh)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)

pytestmark = pytest.mark.submission


def test_there_is_an_example_of_each_format() -> None:
    assert [kind for kind, _ in BLOCKS] == ["python", "sh", "sh", "sh"]


@pytest.mark.usefixtures("lanes_of_shared_spark")
def test_the_examples_print_what_the_page_shows(broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", broker)
    for kind, text in BLOCKS:
        if kind == "python":
            exec(compile(text, "INGEST.md", "exec", dont_inherit=True), {"__name__": "__main__"})
        else:
            for command, expected in commands(text):
                printed = run(command)
                if expected:
                    printed = all_printed(command, printed, len(expected))
                    printed.sort(key=lambda record: str(record["key"]))  # files come in any order
                    assert len(printed) == len(expected)
                    assert [{**line, **shown} for line, shown in zip(printed, expected, strict=True)] == printed


def commands(block: str) -> list[tuple[str, list[Any]]]:
    """Returns the commands of a block, each with the records that the page shows behind it."""
    found: list[tuple[str, list[Any]]] = []
    lines = iter(block.replace("\\\n", "").splitlines())
    for line in lines:
        if line.startswith("# "):
            found[-1][1].append(json.loads(line.removeprefix("# ")))
            continue
        if "<<END" in line:
            rest = iter(lambda: next(lines), "END")
            line = "\n".join([line, *rest, "END"])
        found.append((line, []))
    return found


def all_printed(command: str, printed: list[Any], count: int) -> list[Any]:
    """Reads again until ``count`` records are there. A broker writes the markers of a transaction just after it has
    answered; before that, readers of committed records do not see the last ones."""
    found = [printed]

    def are_there() -> bool:
        if len(found[0]) < count:
            found[0] = run(command)
        return len(found[0]) >= count

    eventually(are_there, f"{command} prints {count} records")
    return found[0]


def run(command: str) -> list[Any]:
    """Run a command; returns the records that it prints."""
    if not command.startswith("penstock "):
        subprocess.run(["bash", "-c", command], check=True)
        return []
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    assert done.exit_code == 0, (command, done.output, done.exception)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
