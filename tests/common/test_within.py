"""Waiting for an answer for a limited time."""

from __future__ import annotations

import asyncio

import pytest

from penstock.common.within import within


def test_the_result_is_returned() -> None:
    async def answer() -> int:
        return 7

    assert asyncio.run(within(60, answer())) == 7
    assert asyncio.run(within(None, answer())) == 7


def test_an_answer_that_takes_too_long_is_cancelled() -> None:
    async def run() -> bool:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        with pytest.raises(TimeoutError):
            await within(0.001, answer)
        return answer.cancelled()

    assert asyncio.run(run())


def test_a_task_that_is_cancelled_as_its_answer_comes_ends() -> None:
    async def run() -> None:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asking = asyncio.create_task(within(60, answer))
        await asyncio.sleep(0)
        answer.set_result(7)
        asking.cancel()  # asyncio.wait_for of Python 3.11 would return 7, and the task would continue
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(run())
