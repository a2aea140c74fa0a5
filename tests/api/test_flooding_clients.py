"""Clients that send heads, trailers or requests without end: the server drops them before they take its memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from penstock.api import connections
from tests.api.fake import FakeReadSide
from tests.api.served import served as served_by
from tests.waiting import PATIENCE_S

BEGINNING = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKED = BEGINNING + b"Transfer-Encoding: chunked\r\n\r\n"


def served(play: Callable[[str, int], Awaitable[None]]) -> None:
    asyncio.run(served_by(play, FakeReadSide()))
    assert connections.Connection.heads == 0, "no connection is left that holds a head"


async def sent_before_the_end(port: int, beginning: bytes, block: bytes, most: int) -> tuple[int, bytes]:
    """The bytes that a client could send before the server ended its connection, and the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(beginning)
    answer = asyncio.ensure_future(read_all(reader))
    sent = 0
    while sent < most and not answer.done():
        writer.write(block)
        sent += len(block)
        try:
            await writer.drain()
        except OSError:
            break
        await asyncio.sleep(0)
    writer.close()
    return sent, await answer


async def read_all(reader: asyncio.StreamReader) -> bytes:
    read = b""
    try:
        while chunk := await reader.read(1 << 16):
            read += chunk
    except OSError:
        pass
    return read


@pytest.mark.parametrize(
    ("beginning", "block"),
    [
        pytest.param(CHUNKED + b"0\r\n", b"a: b\r\n" * 100, id="many trailers"),
        pytest.param(CHUNKED + b"0\r\na: ", b"x" * 6000, id="a trailer without an end"),
        pytest.param(BEGINNING, b"a:\r\n" * 100, id="many headers"),
        pytest.param(BEGINNING + b"a: ", b"x" * 6000, id="a header without an end"),
        pytest.param(b"", b"GET /healthz HTTP/1.1\r\n\r\n" * 1000, id="pipelined requests"),
    ],
)
def test_the_server_ends_a_connection_that_floods_it(beginning: bytes, block: bytes) -> None:
    async def play(url: str, port: int) -> None:
        most = 64 << 20
        sent, _ = await asyncio.wait_for(sent_before_the_end(port, beginning, block, most), 60)
        assert sent < most
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            assert (await client.get("/healthz")).status_code == 200

    served(play)


def test_a_request_has_at_most_so_many_headers_and_an_ordinary_one_is_answered() -> None:
    async def play(url: str, port: int) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            most = {f"x-{number}": "1" for number in range(connections.MOST_HEADERS - 10)}
            assert (await client.get("/healthz", headers=most)).status_code == 200
            more = {f"x-{number}": "1" for number in range(connections.MOST_HEADERS + 1)}
            assert (await client.get("/healthz", headers=more)).status_code == 400

    served(play)


def test_pipelined_requests_are_answered_up_to_the_limit() -> None:
    async def play(url: str, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        writer.write((request + b"\r\n") * connections.MOST_PIPELINED + request + b"Connection: close\r\n\r\n")
        answer = await asyncio.wait_for(read_all(reader), 60)
        assert answer.count(b"HTTP/1.1 200 OK") == connections.MOST_PIPELINED + 1
        writer.close()

    served(play)


def test_the_connections_with_the_largest_heads_end_while_all_heads_together_are_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "LARGEST_HEADS", 1 << 20)

    async def play(url: str, port: int) -> None:
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        (patient, small), *large = clients
        small.write(BEGINNING)
        await small.drain()
        for _, writer in large:
            writer.write(BEGINNING + b"a: " + b"x" * 200_000)
            await writer.drain()
        ended = [asyncio.ensure_future(read_all(reader)) for reader, _ in large]
        await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert any(each.done() for each in ended)
        small.write(b"Connection: close\r\n\r\n")
        assert b"200 OK" in await asyncio.wait_for(read_all(patient), 60)
        for _, writer in clients:
            writer.close()
        await asyncio.gather(*ended)

    served(play)


def test_a_body_in_many_chunks_is_no_head() -> None:
    async def play(url: str, port: int) -> None:
        keys = b'{"keys": [' + b" " * (2 * connections.LARGEST_HEAD) + b'"a"]}'

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(keys), 1000):
                yield keys[start : start + 1000]

        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            path = "/v1/applications/word-count/stores/counts/keys:batch"
            answer = await client.post(path, content=chunks(), headers={"content-type": "application/json"})
            assert answer.status_code == 200

    served(play)
