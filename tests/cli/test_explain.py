"""``penstock explain`` finds a message by its text, by a line of a log, or by a part of it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import penstock as ps
from penstock.cli import explained
from penstock.cli.main import app
from penstock.kafka.contracts import UndeliveredError


def explain(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["explain", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("MissingTopicError", "MissingTopicError"),
        ("missingtopicerror", "MissingTopicError"),
        ("MissingTopicError: topic 'orders' does not exist", "MissingTopicError"),
        ("task is stuck", "task is stuck"),
        ("commit refused, tasks dropped", "commit refused, tasks dropped"),
        ("commit refused", "commit refused"),
        ("transaction aborted, going back to the last commit", "…, going back to the last commit"),
        ("2026-11-27 03:14:00 [error    ] task is stuck   actor=stream/1 task=0_1", "task is stuck"),
        ("stuck", "task is stuck"),
    ],
)
def test_a_message_is_found(given: str, found: str) -> None:
    lines = explain(given).splitlines()
    assert lines[0] == found
    assert any(line.startswith("What to do: ") for line in lines)
    assert lines[-1].startswith("More: docs/messages/")


def test_several_are_listed() -> None:
    assert {"checkpoint not used", "a checkpoint is damaged"} <= set(explain("checkpoint").splitlines())


def test_without_a_message_all_are_listed() -> None:
    assert explain().splitlines() == [it.message for it in explained.explanations()]


def test_json_has_the_parts() -> None:
    (body,) = json.loads(explain("task is stuck", "--json"))
    assert body["message"] == "task is stuck"
    assert body["page"] == "messages/actors.md"
    assert body["meaning"]
    assert body["what_to_do"]


def test_an_unknown_message_is_an_error_that_names_similar_ones() -> None:
    with pytest.raises(ps.ConfigError, match="nothing explains 'taks is stuk'; there are: 'task is stuck'"):
        CliRunner().invoke(app, ["explain", "taks is stuk"], catch_exceptions=False)


def test_a_published_site_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explained, "address", lambda: "https://docs.example/penstock/")
    assert explain("ConfigError").splitlines()[-1] == "More: https://docs.example/penstock/messages/errors.html"


def test_an_error_is_explained_by_its_public_class() -> None:
    assert explained.name_of(ps.MissingTopicError("x")) == "MissingTopicError"
    assert explained.name_of(UndeliveredError("x")) == "StreamsError"
    assert explained.name_of(ValueError("x")) is None
