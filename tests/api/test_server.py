"""The server in an event loop that is already there."""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket

import httpx
import pytest

from penstock.api.server import serve
from penstock.cluster.read_side import Reading
from penstock.common.errors import ConfigError
from tests.api.fake import FakeReadSide


async def _started(read_side: FakeReadSide) -> tuple[asyncio.Task[None], str]:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.ensure_future(serve(read_side, "127.0.0.1", 0, address.set_result))
    return server, await asyncio.wait_for(address, 10)


def test_it_answers_until_it_is_cancelled() -> None:
    async def run() -> None:
        server, address = await _started(FakeReadSide())
        async with httpx.AsyncClient(base_url=address) as client:
            assert (await client.get("/healthz")).status_code == 200
            server.cancel()
            with pytest.raises(asyncio.CancelledError):
                await server
            with pytest.raises(httpx.ConnectError):
                await client.get("/healthz")

    asyncio.run(run())


def test_a_request_under_way_is_answered_before_the_end() -> None:
    class Slow(FakeReadSide):
        def __init__(self) -> None:
            super().__init__()
            self.asked, self.go_on = asyncio.Event(), asyncio.Event()

        async def approximate_num_entries(self, store: str, reading: Reading | None = None) -> int:
            self.asked.set()
            await self.go_on.wait()
            return 42

    async def run() -> None:
        slow = Slow()
        server, address = await _started(slow)
        async with httpx.AsyncClient(base_url=address) as client:
            path = "/v1/applications/word-count/stores/counts/approximate-count"
            answer = asyncio.ensure_future(client.get(path))
            await slow.asked.wait()
            server.cancel()
            slow.go_on.set()
            assert (await answer).json()["approximate_count"] == 42
            with pytest.raises(asyncio.CancelledError):
                await server

    asyncio.run(run())


def test_a_port_in_use_is_said_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is in use by another program") as refused:
            asyncio.run(serve(FakeReadSide(), "127.0.0.1", port, print))
        assert "\n" not in str(refused.value)


def test_an_address_that_is_not_of_this_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
        asyncio.run(serve(FakeReadSide(), "192.0.2.1", 0, print))


def test_it_can_be_shipped_to_an_actor_and_leaves_signals_alone() -> None:
    async def run() -> None:
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        server, _ = await _started(FakeReadSide())
        during = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server
        assert during == before

    assert pickle.loads(pickle.dumps(serve)) is serve
    asyncio.run(run())
