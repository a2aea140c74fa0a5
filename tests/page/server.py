"""The application's real server in a thread, over a read side in memory that tests change while a browser looks."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.api.server import serve
from penstock.cluster.client.server_settings import ServerSettings
from tests.api.fake import FakeReadSide
from tests.waiting import PATIENCE_S


class PageServer:
    """A server of the page on a port of the loopback. After ``stop`` it can start again at the same address, also with
    other ``tokens``. Until then its port is kept for it, and refuses connections."""

    def __init__(self, side: FakeReadSide, settings: ServerSettings | None = None) -> None:
        self.side = side
        self.url = ""
        self._port = _kept_port()
        self.tokens = () if settings is None else settings.tokens
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Returns when the server accepts connections."""
        listening = threading.Event()
        settings = ServerSettings(port=self._port.getsockname()[1], tokens=self.tokens)

        def started(url: str) -> None:
            self.url = url
            listening.set()

        async def run() -> None:
            self._loop = asyncio.get_running_loop()
            self._serving = asyncio.ensure_future(serve(self.side, settings, started))
            with suppress(asyncio.CancelledError):
                await self._serving

        self._thread = threading.Thread(target=lambda: asyncio.run(run()), name="page-server", daemon=True)
        self._thread.start()
        assert listening.wait(PATIENCE_S), "the server does not listen"

    def stop(self) -> None:
        """Ends the server and its connections."""
        if self._thread is None:
            return
        assert self._loop is not None
        assert self._serving is not None
        self._loop.call_soon_threadsafe(self._serving.cancel)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the server does not stop"
        self._thread = None

    def close(self) -> None:
        """Ends the server for good."""
        self.stop()
        self._port.close()


def _kept_port() -> socket.socket:
    """Returns a socket that holds a port and does not listen. By ``SO_REUSEADDR`` the server can listen there. No other
    process gets the port while the server is stopped."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept


@contextmanager
def page_server(side: FakeReadSide, settings: ServerSettings | None = None) -> Iterator[PageServer]:
    """Runs a server over ``side``."""
    server = PageServer(side, settings)
    server.start()
    try:
        yield server
    finally:
        server.close()
