"""Dead letters over HTTP: the documents, the refusals, and the scope that a replay needs."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from penstock.api.page.letter_bodies import LetterBody, LettersBody, ReplayBody
from penstock.cluster.letter_side import LetterOrigin, LetterReplay, ReplayRequest, ShownLetter
from penstock.cluster.record_side import Form, ReadsBusyError, Shown, ShownRecord
from tests.api.fake import FakeReadSide
from tests.api.shared_app import app_of
from tests.api.test_tokens import OPERATE, READ, SETTINGS, ask

LETTERS = "/v1/applications/word-count/dead-letters"
HOSTILE = "<img src=x onerror=alert(1)>\0\u202e"


@pytest.fixture
def letters(read_side: FakeReadSide) -> list[ShownLetter]:
    shown = Shown(Form.TEXT, HOSTILE, 9)
    made = [
        ShownLetter(
            ShownRecord(0, offset, 1000, shown, shown, ((HOSTILE, None),), 1),
            LetterOrigin("orders", 0, 7),
            HOSTILE if offset else None,
            HOSTILE,
            HOSTILE,
            None,
            Shown(Form.DECODED, {"a": 1}, 9),
            (LetterReplay("orders", 5),),
            2,
        )
        for offset in (1, 0)
    ]
    read_side.letters.topic, read_side.letters.letters = "dlq", made
    return made


def test_letters_are_documents(client: httpx.Client, letters: list[ShownLetter]) -> None:
    body = LettersBody.model_validate(client.get(LETTERS).json())
    first, foreign = body.letters
    assert (body.topic, first.error and first.error.exception, foreign.error) == ("dlq", HOSTILE, None)
    assert (first.value and first.value.value, first.raw_value and first.raw_value.value) == ({"a": 1}, HOSTILE)
    assert ([each.topic for each in first.replays], first.replay_count) == (["orders"], 2)
    assert len(client.get(LETTERS, params={"limit": 1}).json()["letters"]) == 1
    one = LetterBody.model_validate(client.get(f"{LETTERS}/dlq/0/1").json())
    assert one == first


@pytest.mark.parametrize("path", ["dlq/0/5", "dlq/1/1", "other/0/1"])
def test_there_is_no_such_letter(client: httpx.Client, letters: list[ShownLetter], path: str) -> None:
    assert client.get(f"{LETTERS}/{path}").status_code == 404


@pytest.mark.parametrize("path", ["dlq/-1/5", "dlq/x/1", f"dlq/0/{1 << 63}"])
def test_a_place_that_cannot_be_is_refused(client: httpx.Client, letters: list[ShownLetter], path: str) -> None:
    assert client.get(f"{LETTERS}/{path}").status_code == 422


def test_a_replay_reports_what_it_has_written(
    client: httpx.Client, letters: list[ShownLetter], read_side: FakeReadSide
) -> None:
    request = {"places": ["0@1"], "exceptions": ["ValueError"], "topics": ["orders"]}
    plan = ReplayBody.model_validate(client.post(f"{LETTERS}/replay", json={**request, "dry_run": True}).json())
    done = ReplayBody.model_validate(client.post(f"{LETTERS}/replay", json=request).json())
    assert (plan.written, done.written, done.to, done.lines) == (0, 1, {"orders": 1}, ["1 letter of 2"])
    given = ("0@1",), ("ValueError",), ("orders",)
    assert read_side.letters.requests == [ReplayRequest(*given, dry_run=True), ReplayRequest(*given)]


@pytest.mark.parametrize(
    "body", [{}, {"dry_run": True}, {"places": ["1"]}, {"places": ["0@-1"]}, {"topics": [""]}, {"everything": True}, []]
)
def test_a_replay_of_nothing_in_particular_is_refused(
    client: httpx.Client, letters: list[ShownLetter], read_side: FakeReadSide, body: Any
) -> None:
    assert client.post(f"{LETTERS}/replay", json=body).status_code == 422
    assert read_side.letters.requests == []


def test_an_application_without_a_dead_letter_topic(client: httpx.Client, read_side: FakeReadSide) -> None:
    for answer in (client.get(LETTERS), client.post(f"{LETTERS}/replay", json={"places": ["0@1"]})):
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:penstock:problem:unknown-topic")


def test_a_replay_that_takes_long_is_503(
    client: httpx.Client, letters: list[ShownLetter], read_side: FakeReadSide
) -> None:
    read_side.letters.failure = ReadsBusyError("a replay of dead letters has not ended within 60 s; it continues")
    answer = client.post(f"{LETTERS}/replay", json={"places": ["0@1"]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "it continues" in answer.json()["detail"]


def test_a_token_that_may_only_read_shows_letters_and_replays_none(
    letters: list[ShownLetter], read_side: FakeReadSide
) -> None:
    app = app_of(read_side, SETTINGS)
    assert ask(app, "GET", LETTERS, READ).status_code == 200
    refused = ask(app, "POST", f"{LETTERS}/replay", READ)
    assert (refused.status_code, refused.json()["scope"], read_side.letters.requests) == (403, "operate", [])
    assert ask(app, "POST", f"{LETTERS}/replay", OPERATE).status_code != 403
