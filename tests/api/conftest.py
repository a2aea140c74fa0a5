"""The API over a read side in memory, asked without a socket."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from penstock.api.app import create_app
from tests.api.fake import FakeReadSide


@pytest.fixture
def read_side() -> FakeReadSide:
    """An application with two stores, empty."""
    return FakeReadSide()


class Client:
    """Asks the API; each call in an event loop of its own, so that tests stay plain functions."""

    def __init__(self, read_side: FakeReadSide) -> None:
        # Starlette raises an unexpected error again once it is answered, for the server's log: no matter here.
        self._transport = httpx.ASGITransport(create_app(read_side), raise_app_exceptions=False)

    def get(self, path: str, method: str = "GET") -> httpx.Response:
        """The answer to ``path``."""

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://penstock") as client:
                return await client.request(method, path)

        return asyncio.run(ask())


@pytest.fixture
def client(read_side: FakeReadSide) -> Client:
    """A client of the API over ``read_side``."""
    return Client(read_side)
