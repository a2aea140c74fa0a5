"""The programs of docs/TUTORIAL.md, step by step: what it shows is what they give."""

from __future__ import annotations

import asyncio
import json
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from typer.testing import CliRunner

import penstock as ps
from penstock.cli import query
from penstock.cli.main import app as commands
from penstock.cluster.queries.queries import StateQueries
from penstock.topology.physical.topology import internal_topic
from tests.actors.rig import APPLICATION
from tests.architecture.sources import ROOT
from tests.cluster.local_application import LocalApplication, OneLoopTransport
from tests.examples.transcript import Given, Topics, same_as_kept, transcript

PAGE = (ROOT / "docs" / "TUTORIAL.md").read_text()
STEPS = ("step_1_count", "step_2_table", "step_3_window", "step_4_join")
text, number = ps.Serdes.string(), ps.Serdes.long()
NOON_MS = 1_795_780_800_000
MESSAGES, THEMES = {"messages": (text, text)}, {"themes": (text, text)}

GIVEN: dict[str, tuple[list[Given], Topics, list[str]]] = {
    "step_1_count": (
        [Given("messages", "12:00", "ada", "tea or coffee"), Given("messages", "12:01", "bob", "tea")],
        MESSAGES,
        ["word-counts"],
    ),
    "step_2_table": (
        [
            Given("themes", "12:00", "tea", "drinks"),
            Given("themes", "12:01", "cake", "drinks"),
            Given("themes", "12:02", "cake", "food"),
            Given("themes", "12:03", "tea", None),
        ],
        THEMES,
        ["words-per-theme"],
    ),
    "step_3_window": (
        [
            Given("messages", "12:00:10", "ada", "tea"),
            Given("messages", "12:00:50", "bob", "tea"),
            Given("messages", "12:01:05", "ada", "cake"),
            Given("messages", "12:00:58", "eve", "tea"),
            Given("messages", "12:01:10", "eve", "cake"),
            Given("messages", "12:00:59", "eve", "tea"),
            Given("messages", "12:02:10", "eve", "bye"),
        ],
        MESSAGES,
        ["counts-per-minute"],
    ),
    "step_4_join": (
        [
            Given("messages", "12:00", "ada", "tea"),
            Given("themes", "12:01", "tea", "drinks"),
            Given("messages", "12:02", "bob", "tea or coffee"),
            Given("themes", "12:03", "coffee", "drinks"),
            Given("messages", "12:04", "eve", "coffee"),
        ],
        MESSAGES | THEMES,
        ["theme-counts"],
    ),
}
"""For each step the records that the page plays, their topics, and the topics whose results it shows."""


def program(step: str) -> ModuleType:
    return import_module(f"examples.tutorial.{step}")


@pytest.mark.parametrize("step", STEPS)
def test_a_step_gives_the_results_that_the_page_shows(step: str) -> None:
    records, inputs, outputs = GIVEN[step]
    played = transcript(program(step).app, records, inputs, dict.fromkeys(outputs, (text, number)))
    assert same_as_kept(f"tutorial/{step}", played)
    assert f"```\n{played}```" in PAGE


def test_the_test_of_the_page_holds() -> None:
    program("test_program").test_words_count_for_the_theme_that_they_have_at_that_moment()


def test_the_answers_of_the_stores_are_those_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = program("step_4_join").app.topology
    internal = [internal_topic(APPLICATION, topic) for topic in topology.repartition_topics]
    results = ("word-counts", "words-per-theme", "counts-per-minute", "theme-counts")
    it = LocalApplication(tmp_path, topology, ("messages", "themes", *results, *internal), 1)
    for seconds, record in enumerate(GIVEN["step_4_join"][0]):
        it.write(record.topic, record.key, record.value, NOON_MS + 1000 * seconds)
        for _ in range(4):  # through two repartition topics
            it.commit()
    monkeypatch.setattr("ray.get_actor", lambda *_: it)
    shown = re.search(r"```\n\$ curl \S+/stores/(\S+)\n(\{.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    url = f"http://localhost/v1/applications/{APPLICATION}/stores/"
    with httpx.Client(transport=OneLoopTransport(APPLICATION), base_url=url) as client:
        answer = client.get(shown[1]).text.replace(f"{APPLICATION}-", "words-")
        assert json.loads(answer) == json.loads(shown[2])
    assert asyncio.run(query.answer(StateQueries(APPLICATION), "theme-counts", query.Asked()))
    assert f"$ penstock query words theme-counts\n{capsys.readouterr().out}```" in PAGE
    it.close()


def test_the_plan_of_the_page_is_the_real_one() -> None:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(
        commands, ["plan", "examples.tutorial.step_3_window:app", "examples.tutorial.step_4_join:app"]
    )
    assert done.exit_code == 0
    lines = [line.rstrip() for line in done.output.splitlines()]
    shown = re.search(r"\$ penstock plan before:app program:app\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert shown[1].splitlines() == lines
