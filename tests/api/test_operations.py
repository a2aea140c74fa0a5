"""Scaling, moves of tasks and restarts of actors over HTTP."""

from __future__ import annotations

import httpx
import pytest

from penstock.common.errors import ApplicationStateError
from tests.api.fake import FakeReadSide
from tests.api.test_operations_log import OPERATE, READ, lines_of

APP = "/v1/applications/word-count"
CALLS = [
    ("scale", {"count": 3}, "scale to 3"),
    ("actors/stream/2/restart", None, "restart stream/2"),
    ("actors/stream%2F2/restart", None, "restart stream/2"),
    ("tasks/1_0/move", {"to": "stream/2"}, "move 1_0 to stream/2"),
]


@pytest.mark.parametrize(("path", "body", "done"), CALLS)
def test_an_operation_is_carried_out_and_answered_with_the_status(
    client: httpx.Client, read_side: FakeReadSide, path: str, body: object, done: str
) -> None:
    answer = client.post(f"{APP}/{path}", json=body) if body else client.post(f"{APP}/{path}")
    assert answer.status_code == 200
    assert answer.json()["state"] == "RUNNING"
    assert read_side.operations.done == [done]


@pytest.mark.parametrize(("path", "body", "done"), CALLS)
def test_a_refusal_is_a_problem_with_the_reason(
    client: httpx.Client, read_side: FakeReadSide, path: str, body: object, done: str
) -> None:
    read_side.operations.refused = "stream/2 is ending"
    answer = client.post(f"{APP}/{path}", json=body) if body else client.post(f"{APP}/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (409, "application/problem+json")
    assert answer.json()["type"] == "urn:penstock:problem:refused"
    assert answer.json()["detail"] == "stream/2 is ending"
    assert read_side.operations.done == []
    assert done


@pytest.mark.parametrize(("path", "body", "done"), CALLS)
def test_an_application_that_does_not_run_and_another_one_have_their_problems(
    client: httpx.Client, read_side: FakeReadSide, path: str, body: object, done: str
) -> None:
    read_side.failure = ApplicationStateError("it does not run")
    for app, status in (("word-count", 503), ("other", 404)):
        answer = client.post(f"/v1/applications/{app}/{path}", json=body)
        assert answer.status_code == status
    assert done


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("scale", {"count": 0}, "body/count"),
        ("scale", {"count": "many"}, "body/count"),
        ("scale", {}, "body/count"),
        ("scale", {"count": 1, "more": 1}, "body/more"),
        ("tasks/1_x/move", {"to": "stream/1"}, "path/task"),
        ("tasks/1_0/move", {}, "body/to"),
        ("tasks/1_0/move", {"to": "x" * 201}, "body/to"),
    ],
)
def test_an_invalid_operation_is_refused(client: httpx.Client, path: str, body: object, where: str) -> None:
    answer = client.post(f"{APP}/{path}", json=body)
    assert answer.status_code == 422
    assert [each["where"] for each in answer.json()["errors"]] == [where]


@pytest.mark.parametrize(("path", "body", "done"), CALLS)
def test_it_needs_the_scope_operate_and_no_page_of_another_site_may_do_it(
    read_side: FakeReadSide, client: httpx.Client, path: str, body: object, done: str
) -> None:
    answer = client.post(f"{APP}/{path}", json=body, headers={"Origin": "https://evil.example"})
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:penstock:problem:cross-site")
    (line,) = lines_of("POST", f"{APP}/{path}", READ, read_side)
    assert (line["status"], line["why"]) == (403, "scope-too-small")
    (line,) = lines_of("POST", f"{APP}/{path}", OPERATE, read_side)
    assert line["event"] == "operation"
    assert done not in read_side.operations.done or body is None
