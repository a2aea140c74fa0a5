"""Waiting for an answer for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float | None, answer: Awaitable[T]) -> T:
    """Returns the result of ``answer``. Raises TimeoutError after ``seconds``, and cancels it; None: no limit.

    ``asyncio.wait_for`` of Python 3.11 loses a cancellation that comes in the same turn of the event loop as the result
    (CPython issue 86296): a task that should have ended then runs for ever.
    """
    async with asyncio.timeout(seconds):
        return await answer
