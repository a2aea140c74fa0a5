"""The limits on what clients may take of the server."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive

from penstock.api import limits
from penstock.api.app import create_app
from penstock.api.limits import LARGEST_BODY, Rate
from penstock.cluster.client.server_settings import Scope, ServerSettings, Token
from penstock.cluster.read_side import ApplicationStatus, Query, Reading, StoreEntry
from tests.api.fake import FakeReadSide
from tests.waiting import PATIENCE_S

STORE = "/v1/applications/word-count/stores/counts"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_gives_a_seconds_worth_at_once_and_then_one_after_the_other() -> None:
    clock = Clock()
    rate = Rate(4, clock)
    assert [rate.wait_s() for _ in range(5)] == [0, 0, 0, 0, 0.25]
    clock.now += 0.1
    assert rate.wait_s() == pytest.approx(0.15), "who asks too early takes nothing"
    clock.now += 0.15
    assert rate.wait_s() == 0
    clock.now += 1000
    assert [bool(rate.wait_s()) for _ in range(6)] == [False] * 4 + [True] * 2, "nothing is saved up for longer"


def client(side: FakeReadSide, **settings: int) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(side, ServerSettings(**settings)))  # type: ignore[arg-type]  # numbers
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "range"), ("GET", "windows"), ("GET", "sessions"), ("POST", "keys:batch")],
)
def test_questions_to_all_tasks_are_limited_for_all_clients_together(method: str, path: str) -> None:
    async def run() -> tuple[httpx.Response, list[int]]:
        async with client(FakeReadSide(), max_ranges_per_second=2) as it:
            body: dict[str, Any] = {"json": {"keys": ["a"]}} if method == "POST" else {}
            for _ in range(2):
                await it.get(f"{STORE}/range")
            refused = await it.request(method, f"{STORE}/{path}", **body)
            others = ["keys/a", "approximate-count"]
            return refused, [(await it.get(f"{STORE}/{other}")).status_code for other in others]

    refused, others = asyncio.run(run())
    assert refused.status_code == 429, refused.text
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["type"] == "urn:penstock:problem:too-many-ranges"
    assert "application.server.max.ranges.per.second" in refused.json()["detail"]
    assert others == [404, 200], "look-ups are not"


def test_a_limited_number_may_wait_for_answers_and_health_is_still_reported() -> None:
    class Slow(FakeReadSide):
        def __init__(self) -> None:
            super().__init__()
            self.asked, self.may_continue = asyncio.Event(), asyncio.Event()

        async def find_row(self, store: str, query: Query, reading: Reading | None = None) -> StoreEntry | None:
            self.asked.set()
            await self.may_continue.wait()
            return None

    async def run() -> None:
        slow = Slow()
        async with client(slow, max_waiting_queries=1) as it:
            first = asyncio.ensure_future(it.get(f"{STORE}/keys/a"))
            await slow.asked.wait()
            refused = await it.get(f"{STORE}/keys/b")
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.json()["type"] == "urn:penstock:problem:too-many-waiting"
            for path in ("/healthz", "/readyz"):
                assert (await it.get(path)).status_code == 200
            slow.may_continue.set()
            assert (await first).status_code == 404
            assert (await it.get(f"{STORE}/keys/b")).status_code == 404, "there is room again"

    asyncio.run(run())


def test_simultaneous_health_checks_ask_the_application_once() -> None:
    class Slow(FakeReadSide):
        asked = 0
        may_continue: asyncio.Event

        async def status(self) -> ApplicationStatus:
            self.asked += 1
            await self.may_continue.wait()
            return self.current

    async def run() -> None:
        slow = Slow()
        slow.may_continue = asyncio.Event()
        async with client(slow) as it:
            first = [asyncio.ensure_future(it.get("/readyz")) for _ in range(20)]
            while not slow.asked:
                await asyncio.sleep(0)
            first[0].cancel()
            slow.may_continue.set()
            assert [(await each).status_code for each in first[1:]] == [200] * 19, "who goes away takes nobody along"
            assert slow.asked == 1
            assert (await it.get("/readyz")).status_code == 200
            assert slow.asked == 2, "the next is told what is true then"

    asyncio.run(run())


def test_a_request_that_fails_gives_its_place_back() -> None:
    class Failing(FakeReadSide):
        async def find_row(self, store: str, query: Query, reading: Reading | None = None) -> StoreEntry | None:
            raise RuntimeError

    async def run() -> list[int]:
        app = create_app(Failing(), ServerSettings(max_waiting_queries=1))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as it:
            return [(await it.get(f"{STORE}/keys/a")).status_code for _ in range(3)]

    assert asyncio.run(run()) == [500, 500, 500]


# ---- requests whose bodies do not come ----


async def never() -> MutableMapping[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def asked(
    app: FastAPI, receive: Receive, method: str = "POST", path: str = f"{STORE}/keys:batch", **headers: str
) -> tuple[int, str]:
    """Status and body of an answer. ``headers``: with underscores in their names."""
    responses: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        responses.append(message)

    given = {"host": "localhost", **headers}
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    await app(scope, receive, send)
    return responses[0]["status"], responses[1]["body"].decode()


def sends(*chunks: bytes) -> Receive:
    left = list(chunks)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive


def test_a_request_whose_body_does_not_come_takes_no_place() -> None:
    async def run() -> None:
        app = create_app(FakeReadSide(), ServerSettings(max_waiting_queries=3))
        stalled = [asyncio.ensure_future(asked(app, never)) for _ in range(10)]
        await asyncio.sleep(0)
        assert (await asked(app, sends(b""), "GET", f"{STORE}/approximate-count"))[0] == 200
        assert (await asked(app, sends(b'{"keys": ', b"[]}")))[0] == 200
        for each in stalled:
            each.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)

    asyncio.run(run())


def test_a_refused_request_is_refused_before_its_body_is_read() -> None:
    async def run() -> None:
        app = create_app(FakeReadSide(), ServerSettings(max_ranges_per_second=1))
        large = {"content_length": str(LARGEST_BODY + 1)}
        assert (await asked(app, never, **large))[0] == 413
        assert (await asked(app, never))[0] == 429
        assert (await asked(app, never, origin="https://evil.example"))[0] == 403
        assert (await asked(app, never, path=f"{STORE}/keys:batch?x"))[0] == 404
        with_tokens = create_app(FakeReadSide(), ServerSettings(tokens=(Token.of(Scope.READ, "r" * 20),)))
        assert (await asked(with_tokens, never))[0] == 401

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_a_body_that_finds_no_place_is_not_parsed() -> None:
    class Slow(FakeReadSide):
        async def find_row(self, store: str, query: Query, reading: Reading | None = None) -> StoreEntry | None:
            await asyncio.Event().wait()
            return None

    async def run() -> None:
        app = create_app(Slow(), ServerSettings(max_waiting_queries=1))
        sent = asyncio.Event()

        async def slowly() -> MutableMapping[str, Any]:
            await sent.wait()
            return {"type": "http.request", "body": b"no JSON", "more_body": False}

        late = asyncio.ensure_future(asked(app, slowly))
        await asyncio.sleep(0)
        waits = asyncio.ensure_future(asked(app, sends(b""), "GET", f"{STORE}/keys/a"))
        await asyncio.sleep(0)
        sent.set()
        status, responses = await late
        assert (status, "too-many-waiting" in responses) == (503, True)
        waits.cancel()

    asyncio.run(run())


def test_the_bytes_of_all_bodies_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGEST_BODIES", 100)

    async def run() -> None:
        app = create_app(FakeReadSide())

        def begins(body: bytes) -> Receive:
            first = sends(body, b"")

            async def receive() -> MutableMapping[str, Any]:
                if begun.is_set():
                    await never()
                begun.set()
                return await first()

            begun = asyncio.Event()
            return receive

        stalled = [asyncio.ensure_future(asked(app, begins(b" " * 45))) for _ in range(2)]
        await asyncio.sleep(0)
        small, large = b'{"keys": []}'[:10], b" " * 11
        status, responses = await asked(app, sends(large))
        assert (status, "too-many-bodies" in responses) == (503, True)
        assert (await asked(app, sends(small)))[0] == 422, "there is room for it"
        for each in stalled:
            each.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)
        for _ in range(3):
            assert (await asked(app, sends(b'{"keys": []}', b" " * 80)))[0] == 200, "all is given back"

    asyncio.run(run())


def test_a_body_that_is_broken_off_is_no_fault_of_ours() -> None:
    async def gone() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    status, responses = asyncio.run(asked(create_app(FakeReadSide()), gone))
    assert (status, "body-incomplete" in responses) == (400, True)
