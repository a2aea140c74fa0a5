"""The source of live streams, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from penstock.api.page import live_feed
from penstock.api.page.live_feed import LiveFeed
from penstock.cluster.read_side import ApplicationStatus
from penstock.common.errors import TaskNotReadyError
from tests.api.events import applied
from tests.api.fake import FakeReadSide
from tests.waiting import PATIENCE_S


class Stepping(FakeReadSide):
    """Answers when the test lets it: each answer has one more commit."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0
        self.asked = 0
        self._let = asyncio.Semaphore(0)

    async def status(self) -> ApplicationStatus:
        self.asked += 1
        await self._let.acquire()
        self.commits += 1
        (first, *others) = (await super().status()).actors
        return replace(self.current, actors=(replace(first, commits=self.commits), *others))

    async def answer(self, times: int = 1) -> None:
        """Returns when the feed has that many more answers, and asks for the next one."""
        for _ in range(times):
            asked = self.asked
            self._let.release()
            while self.asked == asked:
                await asyncio.sleep(0)

    async def is_asked(self) -> None:
        while not self.asked:
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "ASK_EVERY_S", 0.0)


def read(event: bytes) -> tuple[str, Any]:
    kind, data = event.decode().removesuffix("\n\n").split("\n")
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def commits(rows: Any) -> int:
    found: int = rows["actors"]["actor-1"]["commits"]
    return found


def test_a_slow_client_gets_the_difference_to_what_it_got_last_and_nothing_is_queued() -> None:
    async def run() -> None:
        side = Stepping()
        feed = LiveFeed(side)
        async with (
            aclosing(feed.events(True)) as fast,
            aclosing(feed.events(True)) as slow,
            asyncio.timeout(PATIENCE_S),
        ):
            begun = [asyncio.ensure_future(anext(each)) for each in (fast, slow)]
            await asyncio.sleep(0)
            await side.answer()
            (_, whole), (_, of_slow) = [read(await each) for each in begun]
            assert whole == of_slow
            for number in range(2, 102):
                await side.answer()
                kind, delta = read(await anext(fast))
                assert (kind, commits(delta)) == ("changes", number)
                whole = applied(whole, delta)
            kind, delta = read(await anext(slow))
            assert (kind, commits(delta)) == ("changes", 101), "a hundred answers are one event"
            assert applied(of_slow, delta) == whole

    asyncio.run(run())


def test_the_first_client_after_a_time_without_clients_gets_no_old_figures() -> None:
    async def run() -> None:
        side = Stepping()
        feed = LiveFeed(side)
        async with asyncio.timeout(PATIENCE_S):
            for number in (1, 2):
                async with aclosing(feed.events(False)) as events:
                    first = asyncio.ensure_future(anext(events))
                    await side.is_asked()
                    await side.answer()
                    kind, whole = read(await first)
                    it = whole["application"]["it"]
                    assert (kind, commits(whole), it["may_operate"]) == ("whole", number, False)
                    assert it["records_per_s"] is None, "a rate of the time between is none of now"
                side.asked = 0

    asyncio.run(run())


def test_after_its_end_a_feed_asks_nothing_and_streams_are_empty() -> None:
    async def run() -> None:
        side = Stepping()
        feed = LiveFeed(side)
        events = feed.events(True)
        first = asyncio.ensure_future(anext(events))
        async with asyncio.timeout(PATIENCE_S):
            await side.is_asked()
            feed.end()
            with pytest.raises(StopAsyncIteration):
                await first
            assert [each async for each in feed.events(True)] == []

    asyncio.run(run())


def test_streams_that_are_sent_at_the_same_time_each_show_what_their_token_allows() -> None:
    async def run() -> None:
        side = Stepping()
        feed = LiveFeed(side)
        async with aclosing(feed.events(False)) as reads, aclosing(feed.events(True)) as operates:
            both = asyncio.gather(anext(reads), anext(operates))
            await side.answer()
            allowed = [read(event)[1]["application"]["it"]["may_operate"] for event in await both]
            assert allowed == [False, True]

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_while_nothing_changes_clients_get_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(live_feed, "ASK_EVERY_S", 0.001)

    async def run() -> None:
        side = FakeReadSide()
        side.failure = TaskNotReadyError("the coordinator restarts")
        async with aclosing(LiveFeed(side).events(True)) as events:
            since = silent_since(await anext(events))
            monkeypatch.setattr(live_feed, "_now_ms", lambda: since + 60_000)
            for _ in range(3):
                assert (await anext(events)).startswith(b":"), "the time since which it is silent stays"
            side.failure = None
            assert silent_since(await _event(events)) is None
            side.failure = TaskNotReadyError("the coordinator restarts again")
            assert silent_since(await _event(events)) == since + 60_000

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def silent_since(event: bytes) -> Any:
    return read(event)[1]["application"]["it"]["silent_since_ms"]


async def _event(events: AsyncGenerator[bytes]) -> bytes:
    """Returns the next event that is no heartbeat."""
    while (event := await anext(events)).startswith(b":"):
        pass
    return event
