"""The API's server on a port of its own, for tests of clients that misbehave on their connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.api.server import serve
from penstock.cluster.client.server_settings import ServerSettings
from tests.api.fake import FakeReadSide
from tests.waiting import PATIENCE_S


async def served(
    play: Callable[[str, int], Awaitable[None]], side: FakeReadSide, settings: ServerSettings | None = None
) -> None:
    """Calls ``play`` with the address and the port of a server over ``side``, which it ends afterwards."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.ensure_future(serve(side, settings or ServerSettings(), address.set_result))
    url = await asyncio.wait_for(address, PATIENCE_S)
    try:
        await play(url, int(url.rpartition(":")[2]))
    finally:
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server
