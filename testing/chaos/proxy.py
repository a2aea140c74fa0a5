"""A TCP proxy that can be cut, held, reset and slowed down from any thread, as a whole or some connections of it.

Kafka's clients connect to the address that a broker advertises, so a broker that is to have a proxy needs a listener
that advertises the proxy's port (``Listener.advertised_port`` of the local broker). Each kind of clients may have a
listener, or all share one: then connections are distinguished by their ``client_port`` (``of_processes``).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import psutil

from penstock.common.within import within

_HOST = "127.0.0.1"
_CHUNK_BYTES = 65_536
_UNDER_WAY = 256
"""Chunks of one direction that the proxy holds: any more wait at the sender, as on a full line."""
_SHARES_PER_S = 20
"""Pieces that a limited direction passes in a second."""
_AT_ONCE = struct.pack("ii", 1, 0)
_COMMAND_S = 30.0

_T = TypeVar("_T")


@dataclass(frozen=True)
class Flow:
    """The flow of bytes in one direction. What is delayed keeps its order; what is under way obeys a change at once."""

    held: bool = False
    """Nothing passes, the end of the connection neither, until this is over: then all that was held."""
    delay_s: float = 0.0
    jitter_s: float = 0.0
    """Up to this much more, drawn for each piece that was read."""
    bytes_per_s: float | None = None
    slice_bytes: int | None = None
    """The most that goes in one write, each by itself."""


FREELY = Flow()
_HELD = Flow(held=True)


@dataclass(frozen=True)
class _Line:
    """The treatment of a connection in both directions."""

    up: Flow = FREELY
    down: Flow = FREELY
    cut: bool = False


class Connection:
    """A client's connection through a proxy, known by the client's port."""

    def __init__(self, client_port: int) -> None:
        self.client_port = client_port
        self._writers: list[asyncio.StreamWriter] = []
        self._line = _Line()
        self._changed = asyncio.Event()

    def _treat(self, line: _Line) -> None:
        self._line = line
        self._changed.set()
        self._changed = asyncio.Event()
        if line.cut:
            self._abort()

    def _abort(self, *, reset: bool = False) -> None:
        for writer in self._writers:
            if reset:
                sock: socket.socket = writer.get_extra_info("socket")
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            writer.transport.abort()


Which = Callable[[Connection], bool]
"""Chooses connections. It is called in the proxy's thread: what takes long there holds up every connection."""


def of_processes(pids: Collection[int]) -> Which:
    """Returns the choice of connections that one of these processes has made; asks the system about each once."""
    known: dict[Connection, bool] = {}

    def which(connection: Connection) -> bool:
        if connection not in known:
            known[connection] = any(connection.client_port in _ports_of(pid) for pid in pids)
        return known[connection]

    return which


def _ports_of(pid: int) -> set[int]:
    try:
        return {each.laddr.port for each in psutil.Process(pid).net_connections("tcp") if each.laddr}
    except psutil.NoSuchProcess:
        return set()


class Proxy:
    """Listens on the loopback address and passes all that comes to ``target_port`` there, and back.

    ``port`` 0 takes a free one. Every method may be called from any thread and has done its work when it returns. A
    rule holds for connections that come later, too, until ``heal``; of two that choose the same connection the later
    one holds. ``seed`` decides jitter.
    """

    def __init__(self, target_port: int, port: int = 0, seed: int = 0) -> None:
        self.port = port
        self._target_port = target_port
        self._random = random.Random(seed)
        self._rules: list[tuple[Which | None, _Line]] = []
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._trap: tuple[Callable[[bytes], bool], threading.Event, bool] | None = None
        self._listening: socket.socket | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        try:
            self._do(self._listen())
        except BaseException:
            self._end_thread()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._end())
        self._end_thread()

    @property
    def address(self) -> str:
        """The address to which clients connect."""
        return f"{_HOST}:{self.port}"

    def connections(self) -> list[Connection]:
        """Returns those that are open, oldest first."""

        async def open_ones() -> list[Connection]:
            return list(self._connections.values())

        return self._do(open_ones())

    def cut(self, which: Which | None = None) -> None:
        """Drop connections and refuse new ones. A new one that ``which`` chooses is dropped as soon as it has come."""
        self._do(self._rule(which, _Line(cut=True)))

    def black_hole(self, which: Which | None = None) -> None:
        """Accept all and pass nothing, as a network does that loses every packet."""
        self._do(self._rule(which, _Line(_HELD, _HELD)))

    def shape(self, up: Flow = FREELY, down: Flow = FREELY, which: Which | None = None) -> None:
        """Let bytes flow so: ``up`` to the target, ``down`` back to the client."""
        self._do(self._rule(which, _Line(up, down)))

    def reset(self, which: Which | None = None) -> int:
        """End connections by RST, once; new ones may come at once. Returns their number."""

        async def reset_them() -> int:
            chosen = [each for each in self._connections.values() if which is None or which(each)]
            for each in chosen:
                each._abort(reset=True)
            return len(chosen)

        return self._do(reset_them())

    def trap(self, wanted: Callable[[bytes], bool], *, passes: bool) -> threading.Event:
        """Hold the next connection that sends what is ``wanted`` at that piece, and then set the event.

        ``passes``: the piece itself is passed on to the target, and its answer is what is held.
        """
        sprung = threading.Event()

        async def set_it() -> None:
            self._trap = (wanted, sprung, passes)

        self._do(set_it())
        return sprung

    def heal(self) -> None:
        """Forget all rules: every client may connect, and all that was held or delayed is passed on."""
        self._do(self._heal())

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_COMMAND_S)

    async def _listen(self) -> None:
        self._listening = socket.create_server((_HOST, self.port), backlog=128)
        self._listening.setblocking(False)
        self.port = self._listening.getsockname()[1]
        self._loop.add_reader(self._listening, self._accept, self._listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            client, (_, port) = listening.accept()
        except BlockingIOError:
            return  # the client has gone again
        client.setblocking(False)
        connection = Connection(port)
        self._connections[self._loop.create_task(self._serve(connection, client))] = connection

    def _refuse(self) -> None:
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None

    async def _rule(self, which: Which | None, line: _Line) -> None:
        self._rules.append((which, line))
        if which is None and line.cut:
            self._refuse()
        for connection in self._connections.values():
            if which is None or which(connection):
                connection._treat(line)

    async def _heal(self) -> None:
        self._rules.clear()
        self._trap = None
        if self._listening is None:
            await self._listen()
        for connection in self._connections.values():
            connection._treat(_Line())

    async def _end(self) -> None:
        self._refuse()
        await asyncio.sleep(0)  # those just accepted have begun, and clean up
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # sockets are closed one turn after that

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, connection: Connection, client: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            reader, writer = await asyncio.open_connection(sock=client, limit=_CHUNK_BYTES)
            connection._writers.append(writer)
            for which, line in self._rules:
                if which is None or which(connection):
                    connection._treat(line)
            if not connection._line.cut:
                await self._join(connection, reader, writer)
        except OSError:
            pass  # one side has ended the connection, or is not there
        finally:
            connection._abort()
            if not connection._writers:
                client.close()
            del self._connections[task]

    async def _join(self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve both directions, until both have ended, or one of them by an error."""
        while connection._line.up.held:
            await connection._changed.wait()  # nor may the target see a connection
        target_reader, target_writer = await asyncio.open_connection(_HOST, self._target_port, limit=_CHUNK_BYTES)
        connection._writers.append(target_writer)
        if connection._line.cut:
            return
        pumps = [
            asyncio.ensure_future(pump)
            for source, sink, up in ((reader, target_writer, True), (target_reader, writer, False))
            for pump in self._direction(connection, source, sink, up)
        ]
        try:
            await asyncio.gather(*pumps)
            for each in connection._writers:
                each.close()  # what is written goes out first
                await each.wait_closed()
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    def _catches(self, connection: Connection, piece: bytes) -> bool:
        """Returns True if this is what a trap waits for; then the connection is held from here on."""
        if self._trap is None or not self._trap[0](piece):
            return False
        _, sprung, passes = self._trap
        self._trap = None
        connection._treat(_Line(FREELY if passes else _HELD, _HELD))
        sprung.set()
        return True

    def _direction(
        self, connection: Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter, up: bool
    ) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
        """Returns the reader of one side, and the writer to the other."""
        under_way: asyncio.Queue[tuple[float, float, bytes | OSError]] = asyncio.Queue(_UNDER_WAY)

        async def read() -> None:
            found: bytes | OSError = b"-"
            while found and not isinstance(found, OSError):
                try:
                    found = await source.read(_CHUNK_BYTES)
                except OSError as error:
                    found = error
                await under_way.put((time.monotonic(), self._random.random(), found))

        async def write() -> None:
            while True:
                arrived_s, drawn, piece = await under_way.get()
                await _passes(connection, up, arrived_s, drawn)
                if up and isinstance(piece, bytes) and self._catches(connection, piece):
                    await _passes(connection, up, arrived_s, drawn)
                if isinstance(piece, OSError):
                    raise piece
                if not piece:
                    sink.write_eof()
                    return
                await _send(connection, up, sink, piece)

        return read(), write()


def _flow(connection: Connection, up: bool) -> Flow:
    return connection._line.up if up else connection._line.down


async def _passes(connection: Connection, up: bool, arrived_s: float, drawn: float) -> None:
    """Return when a piece that arrived then is to be passed on, as the connection is treated by then."""
    while True:
        flow, changed = _flow(connection, up), connection._changed
        wait_s = None if flow.held else arrived_s + flow.delay_s + drawn * flow.jitter_s - time.monotonic()
        if wait_s is not None and wait_s <= 0:
            return
        with contextlib.suppress(TimeoutError):
            await within(wait_s, changed.wait())


async def _send(connection: Connection, up: bool, sink: asyncio.StreamWriter, piece: bytes) -> None:
    sent = 0
    while sent < len(piece):
        await _passes(connection, up, 0.0, 0.0)
        flow = _flow(connection, up)
        size = min(len(piece), flow.slice_bytes or len(piece))
        if flow.bytes_per_s is not None:
            size = min(size, max(1, int(flow.bytes_per_s / _SHARES_PER_S)))
        sink.write(piece[sent : sent + size])
        await sink.drain()
        sent += size
        if flow.bytes_per_s is not None:
            await asyncio.sleep(size / flow.bytes_per_s)
