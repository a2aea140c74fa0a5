"""``penstock explain`` finds a message by its text, by a line of a log, or by a part of it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import penstock as ps
from penstock.cli.main import app
from penstock.common import explained
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


def test_all_that_a_line_of_a_log_names_is_explained_in_its_order() -> None:
    line = "03:14 [error    ] stream loop failed   actor=stream/1 error='DeserializationError: the value …'"
    lines = explain(line).splitlines()
    assert [each for each in lines if each in (it.message for it in explained.explanations())] == [
        "stream loop failed",
        "DeserializationError",  # and not SerializationError, with which its name ends
    ]
    assert sum(each.startswith("What to do: ") for each in lines) == 2


def test_a_longer_message_takes_the_place_of_one_that_it_begins_with() -> None:
    assert explain("03:14 [warning] commit refused, tasks dropped actor=stream/1").count("What to do: ") == 1


def test_messages_that_match_a_part_are_listed() -> None:
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


def test_an_application_that_has_ended_is_explained_by_what_has_ended_it() -> None:
    ended = ps.ApplicationStateError("application 'shop' ended in ERROR: ProcessingError: OSError: away, after 4 tries")
    assert explained.name_of(ended) == "ProcessingError"
    assert explained.name_of(ps.ApplicationStateError("application 'shop' does not run")) == "ApplicationStateError"
