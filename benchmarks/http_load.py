"""A cheap HTTP client that looks up keys and reports rates and latencies, in a process of its own.

Plain asyncio protocols with kept-alive connections and no HTTP library: on two cores the client must not be what is
measured. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from typing import Annotated

import typer


def asks_in(wall_ms: float, period: float) -> bool:
    """Returns True if the period (s) that holds this moment is one with look-ups; without periods each is."""
    return not period or int(wall_ms / 1000 / period) % 2 == 1


_BODIES = 20  # made beforehand, and asked again and again


class Connection(asyncio.Protocol):
    """One kept-alive connection with at most one request under way."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._expected = 0
        self._answer: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the connection is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @property
    def is_open(self) -> bool:
        """True if the server has not closed it, as servers do with a connection that is idle for seconds."""
        return self._transport is not None and not self._transport.is_closing()

    def get(self, path: str) -> asyncio.Future[int]:
        """Ask by GET; the future becomes the status code when the whole answer is there."""
        return self._ask(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())

    def post(self, path: str, body: bytes) -> asyncio.Future[int]:
        """Ask by POST with a body of JSON; the future becomes the status code when the whole answer is there."""
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        return self._ask(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def _ask(self, request: bytes) -> asyncio.Future[int]:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        """Take part of an answer. penstock's answers carry their length."""
        self._received += data
        if len(self._received) < self._expected:
            return
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        fields = head.lower().split(b"\r\n")
        length = next((int(f[15:]) for f in fields if f.startswith(b"content-length:")), None)
        if length is None:
            self._settle(ConnectionError(f"an answer without Content-Length: {head!r}"))
        elif len(body) < length:
            self._expected = len(head) + len(end) + length
        else:
            self._received, self._expected = bytearray(), 0
            self._settle(int(fields[0].split(b" ", 2)[1]))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the request under way: the server has closed the connection."""
        self._settle(error or ConnectionError("the server closed the connection"))

    def _settle(self, outcome: int | Exception) -> None:
        if self._answer is None or self._answer.done():
            return
        if isinstance(outcome, Exception):
            self._answer.set_exception(outcome)
        else:
            self._answer.set_result(outcome)


class Load:
    """Look-ups of random keys on one server, counted."""

    def __init__(self, address: str, path: str, keys: int, batch: int = 0) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self._path = path
        self._keys = keys
        self._random = random.Random(7)
        self._bodies = [self._body(batch) for _ in range(_BODIES)] if batch else []
        self.latencies_ms: list[float] = []
        self.statuses: Counter[int] = Counter()

    async def connect(self) -> Connection:
        """Returns a new connection."""
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(lambda: Connection(self._host), self._host, self._port)
        return protocol

    async def closed(self, connections: int, seconds: float) -> float:
        """Have each connection ask again as soon as it is answered. Returns how long it took (s)."""
        begin = time.perf_counter()

        async def ask_on() -> None:
            connection = await self.connect()
            while (asked := time.perf_counter()) - begin < seconds:
                self.statuses[await self._ask(connection)] += 1
                self.latencies_ms.append((time.perf_counter() - asked) * 1000)

        await asyncio.gather(*(ask_on() for _ in range(connections)))
        return time.perf_counter() - begin

    async def open(self, rate: float, seconds: float, stop: asyncio.Event, period: float, warm: float) -> float:
        """Look up a key every 1/``rate`` s, also while earlier ones are not answered; latencies count from when each
        was due, so a pause of the server is felt by all that fell into it. With a ``period`` (s), only in every other
        one: see :func:`asks_in`. What is asked in the first ``warm`` s is not counted. Ends early when ``stop`` is set.
        Returns for how long it asked (s)."""
        begin = time.perf_counter()
        asked = 0
        idle: list[Connection] = []
        under_way: set[asyncio.Task[None]] = set()

        async def ask(due: float) -> None:
            while idle and not idle[-1].is_open:
                idle.pop()
            connection = idle.pop() if idle else await self.connect()
            status = await connection.get(self._next_path())
            if due - begin >= warm:
                self.statuses[status] += 1
                self.latencies_ms.append((time.perf_counter() - due) * 1000)
            idle.append(connection)

        due = begin
        while due - begin < seconds and not stop.is_set():
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if asks_in(time.time() * 1000, period):
                task = asyncio.create_task(ask(due))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                asked += due - begin >= warm
            due += 1 / rate
        await asyncio.gather(*under_way)
        return asked / rate

    def _ask(self, connection: Connection) -> asyncio.Future[int]:
        if self._bodies:
            return connection.post(self._path, self._random.choice(self._bodies))
        return connection.get(self._next_path())

    def _body(self, keys: int) -> bytes:
        return json.dumps({"keys": [f"user-{self._random.randrange(self._keys)}" for _ in range(keys)]}).encode()

    def _next_path(self) -> str:
        return self._path.format(key=f"user-{self._random.randrange(self._keys)}")


def percentile(values: list[float], share: float) -> float:
    """Returns the value below which ``share`` (0 to 1) of ``values`` lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def _run(load: Load, connections: int, rate: float, seconds: float, period: float, warm: float) -> float:
    if not rate:
        return await load.closed(connections, seconds)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # The process that started us ends the load by closing our standard input.
    loop.add_reader(sys.stdin, stop.set)
    return await load.open(rate, seconds, stop, period, warm)


def main(
    address: Annotated[str, typer.Argument(help="host:port of the server.")],
    path: Annotated[str, typer.Argument(help="Path with {key} where the key goes; of a batch, without.")],
    keys: Annotated[int, typer.Option(help="Keys are user-0 to user-<n-1>.")] = 100_000,
    connections: Annotated[int, typer.Option(help="Closed loop: number of connections.")] = 8,
    rate: Annotated[float, typer.Option(help="Open loop: look-ups per second; 0 is the closed loop.")] = 0.0,
    seconds: Annotated[float, typer.Option(help="Seconds of load.")] = 10.0,
    period: Annotated[
        float, typer.Option(help="Open loop: seconds of a period; only every other one has look-ups.")
    ] = 0.0,
    batch: Annotated[int, typer.Option(help="Closed loop: number of keys per POST; 0 looks up single keys.")] = 0,
    warm: Annotated[float, typer.Option(help="Open loop: do not count the first seconds.")] = 0.0,
) -> None:
    """Look up keys over HTTP."""
    load = Load(address, path, keys, batch)
    took_s = asyncio.run(_run(load, connections, rate, seconds, period, warm))
    looked_up = len(load.latencies_ms) * (batch or 1)
    figures = {
        "lookups": looked_up,
        "per_second": looked_up / took_s,
        "p50_ms": percentile(load.latencies_ms, 0.5),
        "p99_ms": percentile(load.latencies_ms, 0.99),
        "max_ms": max(load.latencies_ms),
        "statuses": {str(status): count for status, count in load.statuses.items()},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    typer.run(main)
