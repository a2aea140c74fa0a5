"""Clients that begin and do not get on: however many they are, others are answered, and in time they are dropped."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import httpx
import pytest

from penstock.api import app, connections, limits
from penstock.cluster.client.server_settings import ServerSettings
from tests.api.fake import FakeReadSide
from tests.api.served import served as served_by
from tests.waiting import PATIENCE_S

CLIENTS = 1000
STORE = "/v1/applications/word-count/stores/counts"
HEAD = f"POST {STORE}/keys:batch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
RANGE = f"GET {STORE}/range?limit=10000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LARGE = 2000
UNREAD = 50
"""Answers to ranges, of 2 MB each, that nobody reads. Later ranges are refused, and nobody reads that either."""
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True)
def files() -> Iterator[None]:
    """Both ends of a thousand connections are in this process."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8 * CLIENTS
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


async def half_a_head(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD[:40].encode())


async def no_body(writer: asyncio.StreamWriter) -> None:
    writer.write(f"{HEAD}Content-Length: 100\r\n\r\n".encode())


async def a_body_byte_by_byte(writer: asyncio.StreamWriter) -> None:
    writer.write(f"{HEAD}Content-Length: 100\r\n\r\n".encode())
    for byte in b'{"ke':
        writer.write(bytes([byte]))
        await writer.drain()


async def no_reading(writer: asyncio.StreamWriter) -> None:
    writer.write(RANGE.encode() * 3)


async def nothing(writer: asyncio.StreamWriter) -> None:
    """A connection alone."""


Stall = Callable[[asyncio.StreamWriter], Awaitable[None]]
STALLS = [nothing, half_a_head, no_body, a_body_byte_by_byte, no_reading]


def read_side() -> FakeReadSide:
    side = FakeReadSide()
    for number in range(1000):
        side.fakes["counts"].put(f"key-{number:04}", "x" * LARGE)
    return side


async def served(play: Callable[[str, int], Awaitable[None]], ranges: int = 1_000_000) -> None:
    await served_by(play, read_side(), ServerSettings(max_ranges_per_second=ranges))


async def stalled(port: int, stall: Stall, count: int) -> list[Client]:
    found = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads
        await stall(writer)
        found.append((reader, writer))
    return found


async def answered(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        for path, status in (("/healthz", 200), (f"{STORE}/keys/key-0001", 200), (f"{STORE}/keys/none", 404)):
            assert (await client.get(path)).status_code == status


@pytest.fixture
def ranges_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the server answer as many ranges as its settings allow for a second, and then no more: on a machine that is
    slow, those of each second together would be too many."""
    monkeypatch.setattr(app, "Rate", partial(limits.Rate, clock=lambda: 0.0))


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.usefixtures("ranges_in_all")
def test_a_thousand_stalled_clients_keep_nobody_else_from_an_answer(stall: Stall) -> None:
    async def play(url: str, port: int) -> None:
        clients = await stalled(port, stall, CLIENTS)
        await answered(url)
        for _, writer in clients:
            writer.transport.abort()

    asyncio.run(served(play, UNREAD if stall is no_reading else 1_000_000))


@pytest.mark.submission
@pytest.mark.usefixtures("ranges_in_all")
def test_clients_of_all_kinds_together_neither() -> None:
    async def play(url: str, port: int) -> None:
        clients = [each for stall in STALLS for each in await stalled(port, stall, CLIENTS // len(STALLS))]
        await answered(url)
        for _, writer in clients:
            writer.transport.abort()

    asyncio.run(served(play, CLIENTS // 2))  # room for the bodies, and for some of those that read nothing


@pytest.mark.parametrize(
    ("stall", "message"),
    [
        (nothing, b""),
        (half_a_head, b"408 Request Timeout"),
        (no_body, b"urn:penstock:problem:body-too-slow"),
        (a_body_byte_by_byte, b"urn:penstock:problem:body-too-slow"),
    ],
)
def test_a_slow_client_is_dropped_and_gets_the_reason(
    stall: Stall, message: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only heads that never come have a short time. If this process is stopped, others would be too late.
    if stall in (nothing, half_a_head):
        monkeypatch.setattr(connections, "HEAD_S", 1.0)
    monkeypatch.setattr(limits, "BODY_S", 0.1)

    async def play(url: str, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await stall(writer)
        reported = await reader.read()  # to the end of the connection
        assert message in reported
        assert bool(reported) == bool(message)
        writer.close()

    asyncio.run(served(play))


def test_a_body_that_nobody_reads_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 1.0)
    monkeypatch.setattr(connections, "BODY_S", 0.02)

    async def play(url: str, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
        assert b"404 Not Found" in await reader.read()
        writer.close()

    asyncio.run(served(play))


def test_a_client_that_reads_no_answer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READING_S", 0.1)

    async def play(url: str, port: int) -> None:
        ((reader, writer),) = await stalled(port, no_reading, 1)
        whole = 3 * 1000 * LARGE
        await lost()
        writer.transport.resume_reading()  # type: ignore[attr-defined]  # a transport that reads
        read = 0
        try:
            while chunk := await reader.read(1 << 20):
                read += len(chunk)
        except ConnectionResetError:
            pass
        assert read < whole
        writer.close()

    async def lost() -> None:
        dropped = asyncio.Event()
        original = connections.Connection.connection_lost

        def connection_lost(self: connections.Connection, error: Exception | None) -> None:
            original(self, error)
            dropped.set()

        monkeypatch.setattr(connections.Connection, "connection_lost", connection_lost)
        await asyncio.wait_for(dropped.wait(), 60)

    asyncio.run(served(play))


def test_when_too_many_connections_are_open_those_that_wait_longest_for_their_clients_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.api.server.most_connections", lambda: 20)
    monkeypatch.setattr(connections, "HEAD_S", PATIENCE_S)  # none ends because a head does not come

    async def play(url: str, port: int) -> None:
        clients = []
        for _ in range(100):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await half_a_head(writer)
            clients.append((reader, writer))
        await answered(url)
        for reader, writer in clients[:80]:
            assert await reader.read() == b""
            writer.close()
        for _, writer in clients[80:]:
            writer.close()

    asyncio.run(served(play))
