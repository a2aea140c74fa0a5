"""How much clients may take of the server."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from penstock.api.app import create_app
from penstock.api.limits import Rate
from penstock.cluster.read_side import ApplicationStatus, Query, Reading, StoreEntry
from penstock.cluster.server_settings import ServerSettings
from tests.api.fake import FakeReadSide

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
    return httpx.AsyncClient(transport=transport, base_url="http://penstock")


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


def test_so_many_may_wait_for_their_answers_and_health_is_told_all_the_same() -> None:
    class Slow(FakeReadSide):
        def __init__(self) -> None:
            super().__init__()
            self.asked, self.go_on = asyncio.Event(), asyncio.Event()

        async def one(self, store: str, query: Query, reading: Reading | None = None) -> StoreEntry | None:
            self.asked.set()
            await self.go_on.wait()
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
            slow.go_on.set()
            assert (await first).status_code == 404
            assert (await it.get(f"{STORE}/keys/b")).status_code == 404, "there is room again"

    asyncio.run(run())


def test_however_many_ask_for_health_at_once_the_application_is_asked_once() -> None:
    class Slow(FakeReadSide):
        asked = 0
        go_on: asyncio.Event

        async def status(self) -> ApplicationStatus:
            self.asked += 1
            await self.go_on.wait()
            return self.current

    async def run() -> None:
        slow = Slow()
        slow.go_on = asyncio.Event()
        async with client(slow) as it:
            first = [asyncio.ensure_future(it.get("/readyz")) for _ in range(20)]
            while not slow.asked:
                await asyncio.sleep(0)
            first[0].cancel()
            slow.go_on.set()
            assert [(await each).status_code for each in first[1:]] == [200] * 19, "who goes away takes nobody along"
            assert slow.asked == 1
            assert (await it.get("/readyz")).status_code == 200
            assert slow.asked == 2, "the next is told what is true then"

    asyncio.run(run())


def test_a_request_that_fails_gives_its_place_back() -> None:
    class Failing(FakeReadSide):
        async def one(self, store: str, query: Query, reading: Reading | None = None) -> StoreEntry | None:
            raise RuntimeError

    async def run() -> list[int]:
        app = create_app(Failing(), ServerSettings(max_waiting_queries=1))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://penstock") as it:
            return [(await it.get(f"{STORE}/keys/a")).status_code for _ in range(3)]

    assert asyncio.run(run()) == [500, 500, 500]
