"""The server: uvicorn inside an event loop that is already there (an actor's)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import cast

import uvicorn

from penstock.api.app import create_app
from penstock.api.connections import HEAD_S, Connection, look_at, most_connections
from penstock.cluster.client.server_settings import ServerSettings
from penstock.cluster.read_side import ReadSide
from penstock.common.errors import ConfigError

# Seconds for which a stop waits for answers under way.
_DRAIN_S = 3
_BACKLOG = 2048
_EVERYWHERE = ("0.0.0.0", "::")
# Addresses reserved for documentation: nothing is sent there.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
# Rate at which uvicorn calls ``on_tick``.
_TICKS_A_SECOND = 10


async def serve(queries: ReadSide, settings: ServerSettings, started: Callable[[str], None]) -> None:
    """Serve ``queries`` as ``settings`` say (port 0: a free one) until cancelled.

    ``started`` is called once with ``http://host:port``, or ``https``, as soon as connections are accepted. Raises
    ConfigError if it cannot listen at the address, or must not without TLS and tokens, and if the certificate cannot be
    used. When it is cancelled, it answers the requests under way before it ends.
    """
    tls = _tls(settings)
    listener = _listen(settings)
    app = create_app(queries, settings)
    server = _Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            headers=[("X-Content-Type-Options", "nosniff")],
            timeout_graceful_shutdown=_DRAIN_S,
        ),
        tls,
        app.state.live.end,
    )
    with listener:
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            listening = asyncio.create_task(server.listening.wait())
            await asyncio.wait({listening, running}, return_when=asyncio.FIRST_COMPLETED)
            if server.listening.is_set():
                started(_address(settings, listener))
            else:
                listening.cancel()
            await asyncio.shield(running)
        finally:
            server.should_exit = True
            await running


class _Server(uvicorn.Server):
    """A uvicorn server that reports when it listens and watches its connections. It does not handle the signals of the
    process, which belong to the owner of the event loop. ``end_streams``: called when it stops, because answers without
    an end would otherwise be waited for."""

    def __init__(self, config: uvicorn.Config, tls: ssl.SSLContext | None, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams
        config.load()
        config.ssl = tls
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # As in uvicorn, which gives a client a minute for the handshake of TLS.
        most, loop = most_connections(), asyncio.get_running_loop()

        def connection() -> Connection:
            made = Connection(config=self.config, server_state=self.server_state, app_state={}, _loop=loop)
            made.most = most
            return made

        tls = self.config.ssl
        in_time = None if tls is None else HEAD_S
        self.servers = [
            await loop.create_server(
                connection, sock=each, ssl=tls, ssl_handshake_timeout=in_time, backlog=self.config.backlog
            )
            for each in sockets or ()
        ]
        self.started = True
        self.listening.set()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_A_SECOND == 0:
            connections = cast("set[Connection]", self.server_state.connections)
            look_at(connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _tls(settings: ServerSettings) -> ssl.SSLContext | None:
    if settings.certificate is None or settings.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 or newer, and Python's choice of ciphers
    for key, file in (("certificate", settings.certificate), ("key", settings.key)):
        try:
            file.open("rb").close()
        except OSError as error:
            here = socket.gethostname()
            why = f"application.server.ssl.{key}.location: cannot read {file} on {here}: {error.strerror}"
            raise ConfigError(why) from None
    try:
        # Without a password it would ask for one on a terminal.
        context.load_cert_chain(settings.certificate, settings.key, password="")
    except ssl.SSLError as error:
        raise ConfigError(
            f"application.server.ssl: {settings.certificate} and {settings.key} are no certificate in PEM and its key, "
            f"without a password: {error}"
        ) from None
    return context


def _listen(settings: ServerSettings) -> socket.socket:
    host, port = settings.host, settings.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise ConfigError(f"application.server: host {host!r} is not known ({error.strerror})") from None
    family, kind, proto, _, address = found[0]
    settings.check(str(address[0]))
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(_why(error, host, port)) from None
    listener.setblocking(False)
    return listener


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"application.server: port {port} on {host} is in use by another program, or another application: "
            "set application.server to another port, to port 0 for a free one, or to '' for no HTTP"
        )
    return f"application.server: cannot listen on {host}:{port} ({error.strerror})"


def _address(settings: ServerSettings, listener: socket.socket) -> str:
    host = settings.host if settings.host not in _EVERYWHERE else _own_address()
    shown = f"[{host}]" if ":" in host else host
    scheme = "http" if settings.certificate is None else "https"
    return f"{scheme}://{shown}:{listener.getsockname()[1]}"


def _own_address() -> str:
    """Returns this machine's address as others reach it, since they cannot connect to 0.0.0.0. If it has none, returns
    its host name."""
    for family, elsewhere in _ELSEWHERE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect((elsewhere, 9))
            return str(way.getsockname()[0])
    return socket.gethostname()
