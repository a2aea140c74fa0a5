"""The commands in the README of a project that ``penstock new`` has made."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

import penstock as ps
from penstock.cli.main import app
from penstock.cli.new import package_of
from tests.cluster.conftest import WordCount
from tests.cluster.settled import until_settled
from tests.cluster.test_command_line import gcs_address, penstock, running
from tests.waiting import eventually


@pytest.mark.submission
def test_the_commands_of_the_readme_work(word_count: Callable[[], WordCount], tmp_path: Path) -> None:
    it = word_count()  # for its broker, and the Ray of the session
    project = tmp_path / it.application_id
    assert CliRunner().invoke(app, ["new", str(project)]).exit_code == 0
    program = project / package_of(project.name) / "program.py"
    # Topics of its own, since the broker is that of other tests.
    mine = {"lines": it.lines, "word-counts": it.counts_topic}
    text = program.read_text()
    for topic, name in mine.items():
        text = text.replace(f'"{topic}"', f'"{name}"')
    program.write_text(
        text.replace('"commit.interval.ms": 1000,', '"commit.interval.ms": 100, "application.server": "127.0.0.1:0",')
    )
    env = {"RAY_ADDRESS": gcs_address(), "PENSTOCK_BOOTSTRAP_SERVERS": it.broker}
    commands = _commands((project / "README.md").read_text(), mine)
    run = next(words for words in commands if words[:2] == ["penstock", "run"])
    with running(project, "-m", "penstock.cli.main", *run[1:], **env) as output:
        eventually(lambda: "tasks run" in str(output), "running")
        with ps.KafkaStreams.connect(it.application_id) as connected:
            until_settled(connected)
        it.send(["to be or not to be"])

        def counted() -> bool:
            return penstock(project, "query", it.application_id, "counts", "be", **env).stdout == "2\n"

        eventually(counted, "two times be")
        shown = {"query": "\n2\n", "topic": "\nbe\t2\n", "top": "All is well"}
        asked = [words for words in commands if words[1] in ("query", "top") or words[1:3] == ["topic", "read"]]
        assert {words[1] for words in asked} == set(shown)
        for words in asked:
            # A count that a query finds is written by the next commit.
            eventually(partial(_shows, project, words[1:], shown[words[1]], env), f"{words}: {shown[words[1]]}")


def _shows(project: Path, words: list[str], wanted: str, env: dict[str, str]) -> bool:
    """Returns True if a command succeeds and its output has ``wanted``."""
    done = penstock(project, *words, **env)
    print(words, done.stdout, done.stderr)
    return done.returncode == 0 and wanted in f"\n{done.stdout}"


def _commands(readme: str, topics: dict[str, str]) -> list[list[str]]:
    """The commands of penstock in a README, with other topics."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL) for line in block.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("penstock ")]
    return [[topics.get(word, word) for word in words] for words in commands]
