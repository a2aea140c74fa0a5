"""The measurement of what open pages cost an application: that it opens and counts them, never what they cost."""

from __future__ import annotations

import asyncio

from benchmarks.page_clients import Pages
from benchmarks.page_cost import Costs, table
from tests.api.fake import APPLICATION_ID, FakeReadSide
from tests.api.served import served
from tests.waiting import PATIENCE_S

PATH = f"/v1/applications/{APPLICATION_ID}/live"


def test_as_many_streams_as_there_are_pages_are_read() -> None:
    pages: list[Pages] = []

    async def read(url: str, port: int) -> None:
        pages.append(Pages(f"127.0.0.1:{port}", PATH, 3, 0.0))
        ended = asyncio.Event()
        running = asyncio.create_task(pages[0].run(ended))
        while pages[0].events < 3:
            await asyncio.sleep(0.01)
        ended.set()
        await running

    asyncio.run(asyncio.wait_for(served(read, FakeReadSide()), PATIENCE_S))
    assert pages[0].refused == set()
    assert pages[0].received > 3_000


def test_a_refused_stream_is_reported() -> None:
    async def read(url: str, port: int) -> None:
        pages = Pages(f"127.0.0.1:{port}", "/v1/applications/another/live", 1, 0.0)
        ended = asyncio.Event()
        running = asyncio.create_task(pages.run(ended))
        while not pages.refused:
            await asyncio.sleep(0.01)
        ended.set()
        await running
        assert pages.refused == {"HTTP/1.1 404 Not Found"}

    asyncio.run(asyncio.wait_for(served(read, FakeReadSide()), PATIENCE_S))


def test_the_cost_of_each_number_of_pages_is_a_row_with_its_goal() -> None:
    one = Costs(1, [0.01, 0.02, 0.015], [9, 9, 9], [1_000, 2_000, 3_000])
    headings, rows = table([one, Costs(10)])
    assert headings[1] == "goal"
    assert rows[0] == ["1", "< 2 %", "1.5 (1.0–2.0)", "9", "2 (1–3)"]
    assert rows[1] == ["10", "< 5 %", "too short a run", "–", "–"]
