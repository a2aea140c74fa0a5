"""The stacks of an actor over HTTP."""

from __future__ import annotations

import httpx
import pytest

from penstock.api.page.flame_routes import FlameBody
from penstock.cluster.read_side import Flame, FlameRefused
from penstock.common.errors import TaskNotReadyError
from tests.api.fake import FakeReadSide
from tests.api.shared_app import app_of
from tests.api.test_tokens import OPERATE, READ, SETTINGS, ask

FLAME = "/v1/applications/word-count/actors/stream/1/flame"
TAKEN = Flame(
    ((("stream-loop", "run (a.py:1)"), 7), (("lease",), 2)),
    9,
    1.01,
    "penstock",
    "py-spy is not installed",
    {"a.py": "program"},
)


def test_stacks_are_a_document(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.flames["stream/1"] = TAKEN
    answer = client.post(FLAME, json={"seconds": 1})
    assert answer.status_code == 200, answer.text
    body = FlameBody.model_validate(answer.json())
    assert body.stacks == [["stream-loop", "run (a.py:1)", 7], ["lease", 2]]
    assert body.files == {"a.py": "program"}
    assert (body.samples, body.sampler, body.note) == (9, "penstock", "py-spy is not installed")


def test_an_actor_that_is_busy_with_another_request_is_asked_later(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    read_side.flames["stream/1"] = FlameRefused(3.2)
    answer = client.post(FLAME, json={})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "4")
    assert answer.json()["type"] == "urn:penstock:problem:flame-busy"


def test_an_actor_that_is_not_there_and_one_that_does_not_answer(client: httpx.Client, read_side: FakeReadSide) -> None:
    answer = client.post(FLAME, json={})
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:penstock:problem:unknown-actor")
    read_side.failure = TaskNotReadyError("actor stream/1 is lost")
    assert client.post(FLAME, json={}).status_code == 503


@pytest.mark.parametrize("seconds", [0, -1, 10.5, "x", None, 1e300])
def test_the_seconds_have_limits(client: httpx.Client, read_side: FakeReadSide, seconds: object) -> None:
    read_side.flames["stream/1"] = TAKEN
    assert client.post(FLAME, json={"seconds": seconds}).status_code == 422


def test_a_mistyped_field_is_refused_instead_of_ignored(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.flames["stream/1"] = TAKEN
    assert client.post(FLAME, json={"second": 1}).status_code == 422


def test_it_needs_the_scope_operate() -> None:
    side = FakeReadSide()
    side.flames["stream/1"] = TAKEN
    app = app_of(side, SETTINGS)
    assert ask(app, "POST", FLAME, READ, json={}).status_code == 403
    assert ask(app, "POST", FLAME, OPERATE, json={}).status_code == 200
