"""Open pages, as a server sees them: clients that read the live stream, in a process of its own without a browser, so
that no browser takes the CPU of the application that is measured. Prints one JSON object."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from typing import Annotated

import typer

from benchmarks.http_load import asks_in

_PIECE = 1 << 16
_LOOK_S = 0.005


class Pages:
    """The live streams of ``number`` pages, which are open in every other ``period`` (s)."""

    def __init__(self, address: str, path: str, number: int, period: float) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self._request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n".encode()
        self._number = number
        self._period = period
        self.received = 0
        self.events = 0
        self.refused: set[str] = set()

    async def run(self, ended: asyncio.Event) -> None:
        """Opens and closes all pages in turn, until ``ended``."""
        while not ended.is_set():
            while not ended.is_set() and not self._are_open():
                await asyncio.sleep(_LOOK_S)
            open_pages = [asyncio.create_task(self._read()) for _ in range(self._number)]
            while not ended.is_set() and self._are_open():
                await asyncio.sleep(_LOOK_S)
            for page in open_pages:
                page.cancel()
            await asyncio.gather(*open_pages, return_exceptions=True)

    def _are_open(self) -> bool:
        return asks_in(time.time() * 1000, self._period)

    async def _read(self) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(self._request)
            status = (await reader.readline()).decode().strip()
            if " 200 " not in f"{status} ":
                self.refused.add(status)
            while piece := await reader.read(_PIECE):
                self.received += len(piece)
                self.events += piece.count(b"event: ")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _run(pages: Pages) -> None:
    ended = asyncio.Event()
    # The process that started this one ends it by closing its standard input.
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    await pages.run(ended)


def main(
    address: Annotated[str, typer.Argument(help="host:port of the server.")],
    path: Annotated[str, typer.Argument(help="Path of the live stream.")],
    number: Annotated[int, typer.Option(help="Number of pages.")] = 1,
    period: Annotated[float, typer.Option(help="Seconds; pages are open in every other of these periods.")] = 1.0,
) -> None:
    """Keep pages open until standard input ends."""
    pages = Pages(address, path, number, period)
    asyncio.run(_run(pages))
    print(json.dumps({"bytes": pages.received, "events": pages.events, "refused": sorted(pages.refused)}))


if __name__ == "__main__":
    typer.run(main)
