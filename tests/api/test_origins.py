"""Without tokens only users of this machine may ask: no page that they visit, and no page under a name of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from penstock.cluster.client.server_settings import Scope, ServerSettings, Token
from tests.api.fake import FakeReadSide
from tests.api.shared_app import app_of

APPLICATION = "/v1/applications/word-count"
PAUSE = f"{APPLICATION}/pause"
TOKEN = "operate-token-0123456789"
REBOUND = {"Host": "evil.example:8080"}
CROSS_SITE = {"Host": "127.0.0.1:8080", "Origin": "https://evil.example", "Content-Type": "text/plain"}


def ask(
    method: str, path: str, headers: Mapping[str, str], side: FakeReadSide | None = None, **settings: object
) -> httpx.Response:
    app = app_of(side or FakeReadSide(), ServerSettings(**settings))  # type: ignore[arg-type]  # of any type

    async def run() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(run())


def test_a_page_of_another_site_cannot_pause_the_application() -> None:
    side = FakeReadSide()
    answer = ask("POST", PAUSE, CROSS_SITE, side)
    assert answer.status_code == 403, answer.text
    assert answer.json()["type"] == "urn:penstock:problem:cross-site"
    assert "Origin: https://evil.example" in answer.json()["detail"]
    assert not side.current.paused


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:9999"},
        {"Origin": "null"},
        {"Origin": "http://localhost:8080"},
        {"Origin": "https://localhost"},
    ],
    ids=str,
)
@pytest.mark.parametrize(("method", "path"), [("POST", PAUSE), ("GET", APPLICATION), ("GET", "/metrics")])
def test_another_program_of_this_machine_is_another_site(method: str, path: str, headers: Mapping[str, str]) -> None:
    assert ask(method, path, headers).json()["type"] == "urn:penstock:problem:cross-site"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"},
        {"Host": "127.0.0.1:8080", "Origin": "http://127.0.0.1:8080"},
        {"Host": "LOCALHOST:80", "Origin": "http://localhost:80"},
        {"Host": "[::1]:8080"},
        {"Host": "127.8.9.10"},
    ],
    ids=str,
)
def test_users_and_programs_of_this_machine_are_answered(headers: Mapping[str, str]) -> None:
    assert ask("POST", PAUSE, headers).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080", "10.0.0.1", "0.0.0.0", "[::2]:80", "",
     "localhost:80@evil.example", "[::1", "127.0.0.1:8080:evil"],
)  # fmt: skip
def test_a_name_that_another_has_for_this_machine_is_not_answered(host: str) -> None:
    answer = ask("GET", APPLICATION, {"Host": host})
    assert answer.status_code == 403, answer.text
    assert answer.json()["type"] == "urn:penstock:problem:foreign-host"
    assert "word-count" not in answer.json()["detail"]


def test_the_name_that_the_application_listens_on_is_answered() -> None:
    assert ask("GET", APPLICATION, {"Host": "my-machine:8080"}, host="my-machine").status_code == 200
    assert ask("GET", APPLICATION, {"Host": "my-machine:8080"}).status_code == 403


def test_health_is_shown_to_all_without_a_reason_and_without_links_to_the_application() -> None:
    side = FakeReadSide()
    for path in ("/healthz", "/readyz", "/docs"):
        assert ask("GET", path, REBOUND, side).status_code == 200
    assert "application" not in ask("GET", "/", REBOUND, side).json()


@pytest.mark.parametrize("headers", [REBOUND, CROSS_SITE], ids=["rebound", "cross-site"])
def test_with_tokens_it_is_the_token_that_counts(headers: Mapping[str, str]) -> None:
    tokens = (Token.of(Scope.OPERATE, TOKEN),)
    assert ask("POST", PAUSE, headers, tokens=tokens).status_code == 401
    assert ask("POST", PAUSE, {**headers, "Authorization": f"Bearer {TOKEN}"}, tokens=tokens).status_code == 200


def test_the_root_shows_the_ways_into_the_api() -> None:
    found = ask("GET", "/", {}).json()
    assert found["application"] == APPLICATION
    assert found["docs"] == "/docs"
    for path in found.values():
        if path.startswith("/"):
            assert ask("GET", path, {}).status_code == 200, path
