"""The proxy between two ordinary sockets: the bytes that pass, those that do not, and the time that it takes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.kafka.local_broker.broker import free_port
from penstock.testing.chaos.proxy import FREELY, Connection, Flow, Proxy, of_processes
from tests.ports import closed_port
from tests.waiting import PATIENCE_S, eventually

LATE = Flow(delay_s=0.15, jitter_s=0.05)


class Echo:
    """A server that sends back what it gets; ``seen`` counts its connections."""

    def __init__(self) -> None:
        self.seen = 0
        self.heard: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                found, _ = self._listening.accept()
                self.seen += 1
                self._open.append(found)
                threading.Thread(target=self._echo, args=(found,), daemon=True).start()

    def _echo(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := client.recv(65_536):
                self.heard.append(piece)
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.port, free_port()) as it:  # one that is not given to another process during a cut
        yield it


def connected(proxy: Proxy) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_S)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def say(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return hear(client, len(text))


def hear(client: socket.socket, size: int) -> bytes:
    heard = b""
    while len(heard) < size and (piece := client.recv(size - len(heard))):
        heard += piece
    return heard


def silent(client: socket.socket, for_s: float = 0.2) -> bool:
    client.settimeout(for_s)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(PATIENCE_S)
    return False


def test_everything_passes_in_both_directions_and_ends_as_it_ended(proxy: Proxy) -> None:
    sent = os.urandom(3_000_000)
    with connected(proxy) as client:
        threading.Thread(target=client.sendall, args=(sent,), daemon=True).start()
        assert hear(client, len(sent)) == sent
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    eventually(lambda: proxy.connections() == [], "all connections have ended")


def test_a_broker_that_is_away_is_also_away_behind_a_proxy() -> None:
    with closed_port() as port, Proxy(port) as proxy, connected(proxy) as client:
        assert ended(client)


def test_a_cut_drops_all_connections_and_refuses_new_ones_until_it_is_healed(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert say(client, b"before") == b"before"
        proxy.cut()
        assert ended(client)
    with pytest.raises(ConnectionRefusedError):
        connected(proxy)
    proxy.heal()
    with connected(proxy) as client:
        assert say(client, b"after") == b"after"


def test_in_a_black_hole_clients_connect_and_nothing_passes_until_it_is_healed(proxy: Proxy, echo: Echo) -> None:
    with connected(proxy) as before:
        assert say(before, b"1") == b"1"
        proxy.black_hole()
        with connected(proxy) as client:
            before.sendall(b"2")
            client.sendall(b"3")
            assert silent(before)
            assert silent(client)
            assert echo.seen == 1, "the target saw somebody come out of a black hole"
            proxy.heal()
            assert hear(before, 1) == b"2"
            assert hear(client, 1) == b"3"


def test_the_end_of_a_connection_does_not_come_out_of_a_black_hole_either(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert say(client, b"1") == b"1"
        proxy.black_hole()
        client.shutdown(socket.SHUT_WR)
        assert silent(client)
        proxy.heal()
        assert client.recv(1) == b""


def test_a_reset_is_one_and_the_next_connection_is_let_in(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert say(client, b"1") == b"1"
        assert proxy.reset() == 1
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with connected(proxy) as client:
        assert say(client, b"2") == b"2"


@pytest.mark.parametrize(("up", "down"), [(LATE, FREELY), (FREELY, LATE)])
def test_a_delay_holds_for_its_direction_and_keeps_the_order(proxy: Proxy, up: Flow, down: Flow) -> None:
    proxy.shape(up, down)
    with connected(proxy) as client:
        began = time.monotonic()
        for number in range(200):
            client.sendall(bytes([number]))
            time.sleep(0.005)  # so that they come as pieces of their own
        assert hear(client, 200) == bytes(range(200))
        took = time.monotonic() - began
    # 200 pieces that wait for each other would take more than 30 s.
    assert 0.15 <= took < 10, "each waited for the one before"


def test_delayed_bytes_arrive_at_once_when_the_proxy_is_healed(proxy: Proxy) -> None:
    proxy.shape(up=Flow(delay_s=600))
    with connected(proxy) as client:
        client.sendall(b"late")
        assert silent(client)
        proxy.heal()
        assert hear(client, 4) == b"late"


def test_a_direction_held_leaves_the_other_alone(proxy: Proxy, echo: Echo) -> None:
    with connected(proxy) as client:
        assert say(client, b"1") == b"1"
        proxy.shape(down=Flow(held=True))
        client.sendall(b"2")
        with connected(proxy):
            eventually(lambda: echo.seen == 2, "the server has accepted both")
        assert silent(client)


def test_bandwidth_is_bytes_per_second(proxy: Proxy) -> None:
    proxy.shape(down=Flow(bytes_per_s=100_000))
    with connected(proxy) as client:
        began = time.monotonic()
        assert say(client, bytes(50_000)) == bytes(50_000)
        assert 0.45 <= time.monotonic() - began < 30


def test_sliced_bytes_leave_in_pieces(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy.shape(down=Flow(slice_bytes=7))
    write, written = asyncio.StreamWriter.write, list[int]()

    def noting(self: asyncio.StreamWriter, data: bytes) -> None:
        written.append(len(data))
        write(self, data)

    monkeypatch.setattr(asyncio.StreamWriter, "write", noting)
    with connected(proxy) as client:
        assert say(client, bytes(70)) == bytes(70)
    # A reader that comes late finds several pieces at once.
    assert written == [70, *[7] * 10]


def test_chosen_connections_alone_are_held_and_those_chosen_that_come_later(proxy: Proxy) -> None:
    with connected(proxy) as one, connected(proxy) as other:
        ports = {one.getsockname()[1]}
        proxy.black_hole(lambda it: it.client_port in ports)
        one.sendall(b"1")
        assert say(other, b"2") == b"2"
        assert silent(one)
        proxy.cut(lambda it: it.client_port not in ports)
        assert ended(other)
        with connected(proxy) as third:
            assert ended(third)
        assert silent(one), "the rule before it does not hold any more"
        proxy.heal()
        assert hear(one, 1) == b"1"


@pytest.mark.parametrize("passes", [False, True])
def test_a_trap_holds_a_connection_at_a_chosen_piece_or_at_its_answer_and_no_other(
    echo: Echo, proxy: Proxy, passes: bool
) -> None:
    with connected(proxy) as client, connected(proxy) as other:
        sprung = proxy.trap(lambda piece: piece.startswith(b"end"), passes=passes)
        assert say(client, b"begin") == b"begin"
        assert not sprung.is_set()
        client.sendall(b"end")
        assert sprung.wait(PATIENCE_S)
        assert silent(client)
        if passes:
            eventually(lambda: b"end" in echo.heard, "the piece passes")  # it springs just before the piece goes on
        else:
            assert b"end" not in echo.heard
        assert say(other, b"end") == b"end", "it springs once"
        proxy.heal()
        assert hear(client, 3) == b"end"


def test_the_connections_of_a_process_are_found(proxy: Proxy) -> None:
    lines = f"import socket, sys; s = socket.create_connection(('127.0.0.1', {proxy.port})); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", lines], stdin=subprocess.PIPE) as other, connected(proxy) as own:
        try:
            eventually(lambda: len(proxy.connections()) == 2, "both are connected")
            found = of_processes([other.pid])
            theirs = [each for each in proxy.connections() if found(each)]
            assert len(theirs) == 1
            assert theirs[0].client_port != own.getsockname()[1]
            assert of_processes([os.getpid()])(Connection(own.getsockname()[1]))
        finally:
            other.kill()
    assert not of_processes([other.pid])(Connection(theirs[0].client_port)), "of a process that has ended"


def test_it_ends_with_connections_open_and_held(echo: Echo) -> None:
    with Proxy(echo.port) as proxy:
        client = connected(proxy)
        proxy.black_hole()
        late = connected(proxy)
        client.sendall(b"1")
    assert ended(client)
    assert ended(late)
    assert proxy._thread.is_alive() is False
    for each in (client, late):
        each.close()


def ended(client: socket.socket) -> bool:
    """Returns True if the other side ends the connection, in one way or the other."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
