"""The operations log: requests that were refused, and those that changed something."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from penstock.api.operations_log import LINES_PER_SECOND, OperationsLog
from penstock.cluster.client.server_settings import Scope, ServerSettings, Token
from penstock.common.errors import ApplicationStateError
from tests.api.fake import FakeReadSide
from tests.api.shared_app import app_of

APPLICATION = "/v1/applications/word-count"
READ, OPERATE = "read-token-0123456789", "operate-token-0123456789"
TOKENS = (Token.of(Scope.READ, READ), Token.of(Scope.OPERATE, OPERATE, "platform-team"))
Lines = list[Mapping[str, Any]]


def lines_of(method: str, path: str, token: str | None = None, side: FakeReadSide | None = None, **given: str) -> Lines:
    app = app_of(side or FakeReadSide(), ServerSettings(tokens=() if token == "" else TOKENS))

    async def run() -> None:
        transport = httpx.ASGITransport(app, client=("10.0.0.9", 4711), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            await client.request(method, path, headers=headers | given)

    with capture_logs() as lines:
        asyncio.run(run())
    return [line for line in lines if line["event"] in ("operation", "request refused")]


def test_a_refused_caller_is_logged_without_its_token() -> None:
    (line,) = lines_of("GET", f"{APPLICATION}?secret=1", "unknown-token-0123456789")
    expected = {
        "event": "request refused", "log_level": "warning", "who": None, "address": "10.0.0.9", "status": 401,
        "request": f"GET {APPLICATION}", "why": "no-token",
    }  # fmt: skip
    assert expected.items() <= line.items()
    assert "unknown-token" not in str(line)
    assert "secret" not in str(line)


def test_a_token_without_a_name_is_called_by_its_hash() -> None:
    (line,) = lines_of("POST", f"{APPLICATION}/pause", READ)
    assert (line["status"], line["why"]) == (403, "scope-too-small")
    assert line["who"].startswith("sha256:")
    assert READ not in str(line)


def test_a_page_of_another_site_is_noted() -> None:
    (line,) = lines_of("POST", f"{APPLICATION}/pause", "", origin="https://evil.example")
    assert (line["status"], line["why"], line["who"]) == (403, "cross-site", None)


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_the_user_that_paused_and_resumed_is_logged_with_the_outcome(verb: str) -> None:
    (line,) = lines_of("POST", f"{APPLICATION}/{verb}", OPERATE)
    assert (line["event"], line["who"], line["address"]) == ("operation", "platform-team", "10.0.0.9")
    assert (line["request"], line["status"]) == (f"POST {APPLICATION}/{verb}", 200)
    side = FakeReadSide()
    side.failure = ApplicationStateError("gone")
    (line,) = lines_of("POST", f"{APPLICATION}/{verb}", OPERATE, side)
    assert line["status"] == 503
    side.failure = RuntimeError("boom")
    (line,) = lines_of("POST", f"{APPLICATION}/{verb}", OPERATE, side)
    assert line["status"] == 500


def test_requests_that_only_read_are_not_logged() -> None:
    for path in (APPLICATION, f"{APPLICATION}/stores/counts/keys/a", "/healthz", "/readyz", "/docs", "/nothing"):
        assert lines_of("GET", path, READ) == []
    assert lines_of("POST", f"{APPLICATION}/stores/counts/keys:batch", READ) == []


def test_strangers_cannot_fill_the_log() -> None:
    now = 0.0
    log = OperationsLog(lambda: now)
    scope = {"method": "GET", "path": "/" + "x" * 100_000, "client": ("10.0.0.9", 1)}
    with capture_logs() as lines:
        for _ in range(1000):
            log.refused(scope, None, 401, "no-token")
        now = 1.0
        log.refused(scope, None, 401, "no-token")
    assert len(lines) == LINES_PER_SECOND + 1
    assert lines[-1]["more_since_the_last_line"] == 1000 - LINES_PER_SECOND
    assert all(len(line["request"]) < 300 for line in lines)
