"""The source of live streams, without a socket."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from penstock.api.page import live_feed
from penstock.api.page.live_feed import LiveFeed
from penstock.cluster.read_side import ApplicationStatus
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
                    while not side.asked:
                        await asyncio.sleep(0)
                    await side.answer()
                    kind, whole = read(await first)
                    assert (kind, commits(whole), whole["application"]["it"]["may_operate"]) == ("whole", number, False)
                side.asked = 0

    asyncio.run(run())


def test_after_its_end_a_feed_asks_nothing_and_streams_are_empty() -> None:
    async def run() -> None:
        side = Stepping()
        feed = LiveFeed(side)
        events = feed.events(True)
        first = asyncio.ensure_future(anext(events))
        while not side.asked:
            await asyncio.sleep(0)
        feed.end()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(first, PATIENCE_S)
        assert [each async for each in feed.events(True)] == []

    asyncio.run(run())
