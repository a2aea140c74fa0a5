"""The application's real server in a thread, over a read side in memory that tests change while a browser looks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.api.server import serve
from penstock.cluster.client.server_settings import ServerSettings
from tests.api.fake import FakeReadSide
from tests.ports import closed_port
from tests.waiting import PATIENCE_S


class PageServer:
    """A server of the page on ``port`` of the loopback. After ``stop`` it can start again there, also with other
    ``tokens``."""

    def __init__(self, side: FakeReadSide, port: int, settings: ServerSettings | None = None) -> None:
        self.side = side
        self.url = ""
        self._port = port
        self.tokens = () if settings is None else settings.tokens
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Returns when the server accepts connections."""
        listening = threading.Event()
        settings = ServerSettings(port=self._port, tokens=self.tokens)

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


@contextmanager
def page_server(side: FakeReadSide, settings: ServerSettings | None = None) -> Iterator[PageServer]:
    """Runs a server over ``side``. While it is stopped, no other process gets its port."""
    with closed_port() as port:
        server = PageServer(side, port, settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()
