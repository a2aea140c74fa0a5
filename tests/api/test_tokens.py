"""The requests that bearer tokens allow, by their scopes: read and operate."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from penstock.cluster.client.server_settings import Scope, ServerSettings, Token
from penstock.cluster.read_side import ApplicationState
from tests.api.fake import STATUS, FakeReadSide
from tests.api.shared_app import SharedApp, app_of

READ, OPERATE = "read-token-0123456789", "operate-token-0123456789"
SETTINGS = ServerSettings(tokens=(Token.of(Scope.READ, READ), Token.of(Scope.OPERATE, OPERATE)))
APPLICATION = "/v1/applications/word-count"
STORE = f"{APPLICATION}/stores/counts"
LOOKS = [
    ("GET", APPLICATION),
    ("GET", f"{APPLICATION}/stores"),
    ("GET", f"{STORE}/keys/a"),
    ("GET", f"{STORE}/range"),
    ("GET", f"{STORE}/approximate-count"),
    ("POST", f"{STORE}/keys:batch"),
    ("GET", "/metrics"),
]
OPEN = ["/", "/healthz", "/readyz", "/docs", "/openapi.json"]


def ask(app: FastAPI, method: str, path: str, token: str | None = None, **options: Any) -> httpx.Response:
    """Makes one request without a socket, with a body if the method has one."""
    headers: dict[str, str] = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            body = {"json": {"keys": ["a"]}} if method == "POST" else {}
            return await client.request(method, path, headers=headers, **(body | options))

    return asyncio.run(run())


@pytest.fixture
def read_side() -> FakeReadSide:
    side = FakeReadSide()
    side.fakes["counts"].put("a", 1)
    return side


@cache
def with_more_routes() -> SharedApp:
    """Returns the API with tokens, and with more routes that change something than this release has."""
    made = SharedApp(SETTINGS)

    @made.app.post(f"{APPLICATION}/restart")
    @made.app.delete(STORE)
    @made.app.put(STORE)
    @made.app.patch(STORE)
    async def changed() -> str:
        return "changed"

    return made


@pytest.fixture
def app(read_side: FakeReadSide) -> FastAPI:
    return with_more_routes().over(read_side)


CHANGES = [("POST", f"{APPLICATION}/restart"), ("DELETE", STORE), ("PUT", STORE), ("PATCH", STORE)]


@pytest.mark.parametrize(("method", "path"), [*LOOKS, *CHANGES])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer unknown-token-0123456789"},
        {"Authorization": f"Bearer {READ[:-1]}"},
        {"Authorization": f"Bearer {READ}x"},
        {"Authorization": f"Bearer {READ.upper()}"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {READ}"},
        {"Authorization": READ},
        {"X-Token": READ},
    ],
    ids=str,
)
def test_a_request_without_a_token_gets_no_details(
    method: str, path: str, headers: Mapping[str, str], app: FastAPI
) -> None:
    answer = ask_with(app, method, path, list(headers.items()))
    assert answer.status_code == 401, answer.text
    assert answer.headers["www-authenticate"] == 'Bearer realm="penstock"'
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["type"] == "urn:penstock:problem:no-token"
    assert "Authorization: Bearer TOKEN" in document["detail"]
    assert "known" not in document
    assert READ not in answer.text


def ask_with(app: FastAPI, method: str, path: str, headers: list[tuple[str, str]]) -> httpx.Response:
    async def run() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(run())


def test_two_tokens_at_once_are_none(app: FastAPI) -> None:
    twice = [("Authorization", f"Bearer {READ}"), ("Authorization", "Bearer x")]
    assert ask_with(app, "GET", APPLICATION, twice).status_code == 401


def test_a_request_without_a_token_does_not_learn_which_applications_exist(app: FastAPI) -> None:
    known, unknown = (ask(app, "GET", f"/v1/applications/{name}") for name in ("word-count", "other"))
    assert (known.status_code, unknown.status_code) == (401, 401)
    assert "word-count" not in unknown.text


@pytest.mark.parametrize(("method", "path"), LOOKS)
@pytest.mark.parametrize("token", [READ, OPERATE])
def test_a_token_that_may_read_may_read_everything(method: str, path: str, token: str, app: FastAPI) -> None:
    assert ask(app, method, path, token).status_code == 200


@pytest.mark.parametrize("kind", ["Bearer", "bearer", "BEARER"])
def test_the_word_before_the_token_is_read_in_any_case(kind: str, app: FastAPI) -> None:
    assert ask_with(app, "GET", APPLICATION, [("authorization", f"{kind} {READ}")]).status_code == 200


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_a_route_that_changes_something_needs_the_scope_operate_without_declaring_it(
    method: str, path: str, app: FastAPI
) -> None:
    refused = ask(app, method, path, READ)
    assert refused.status_code == 403
    assert refused.headers["www-authenticate"].endswith('error="insufficient_scope", scope="operate"')
    assert refused.json()["type"] == "urn:penstock:problem:scope-too-small"
    assert refused.json()["scope"] == "operate"
    assert ask(app, method, path, OPERATE).json() == "changed"


@pytest.mark.parametrize(
    "path", [f"{APPLICATION}/pause/stores/counts/keys:batch", f"{STORE}/keys:batch/", "/keys:batch"]
)
def test_a_path_that_only_looks_like_a_question_is_none(path: str, app: FastAPI) -> None:
    assert ask(app, "POST", path, READ).status_code == 403


@pytest.mark.parametrize("path", OPEN)
def test_health_and_the_description_of_the_api_need_no_token(path: str, app: FastAPI) -> None:
    assert ask(app, "GET", path).status_code == 200
    assert ask(app, "GET", path, "unknown-token-0123456789").status_code == 200


@pytest.mark.parametrize(
    "path", ["/healthz/", "http://localhost//healthz", "/healthz/../metrics", "/readyz/x", "/static-offline-docs"]
)
def test_a_path_that_resembles_an_open_one_needs_a_token(path: str, app: FastAPI) -> None:
    assert ask_with(app, "GET", path, []).status_code == 401


def test_the_reason_for_not_ready_is_shown_only_with_a_read_token(app: FastAPI, read_side: FakeReadSide) -> None:
    read_side.current = replace(STATUS, state=ApplicationState.ERROR, error="key 'ada' cannot be decoded")
    stranger, known = ask(app, "GET", "/readyz"), ask(app, "GET", "/readyz", READ)
    assert (stranger.status_code, known.status_code) == (503, 503)
    assert "ada" not in stranger.text
    assert stranger.json()["state"] == "ERROR"
    assert "key 'ada' cannot be decoded" in known.json()["detail"]


def test_without_tokens_everybody_on_this_machine_may_ask(read_side: FakeReadSide) -> None:
    app = app_of(read_side)
    for method, path in LOOKS:
        assert ask(app, method, path).status_code == 200
    assert "security" not in app.openapi()["paths"]["/metrics"]["get"]


def test_the_openapi_document_lists_the_routes_that_need_a_token(app: FastAPI) -> None:
    document = app.openapi()
    assert document["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            needs = path not in ("/", "/healthz", "/readyz")
            assert (operation.get("security") == [{"token": []}]) is needs, path
            assert ({"401", "403"} <= operation["responses"].keys()) is needs, path


@pytest.mark.parametrize("shown", [repr, str, pickle.dumps])
def test_no_token_is_in_the_settings_that_travel_to_the_server(shown: Any) -> None:
    message = shown(SETTINGS)
    for token in (READ, OPERATE):
        assert (token.encode() if isinstance(message, bytes) else token) not in message
