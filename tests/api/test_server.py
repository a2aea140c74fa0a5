"""The server in an event loop that is already there."""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket
import ssl
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.api.connections import LARGEST_HEAD
from penstock.api.server import _own_address, serve
from penstock.cluster.client.server_settings import Scope, ServerSettings, Token
from penstock.cluster.read_side import Reading
from penstock.common.errors import ConfigError
from tests.api.fake import FakeReadSide
from tests.security.certificates import Authority
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.xdist_group("server")


async def _started(read_side: FakeReadSide, settings: ServerSettings | None = None) -> tuple[asyncio.Task[None], str]:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.ensure_future(serve(read_side, settings or ServerSettings(), address.set_result))
    return server, await asyncio.wait_for(address, PATIENCE_S)


def _serve(settings: ServerSettings) -> None:
    """Runs the server until it is refused. Fails if that does not happen."""
    asyncio.run(asyncio.wait_for(serve(FakeReadSide(), settings, print), PATIENCE_S))


def test_it_answers_until_it_is_cancelled() -> None:
    async def run() -> None:
        server, address = await _started(FakeReadSide())
        async with httpx.AsyncClient(base_url=address, timeout=PATIENCE_S) as client:
            assert (await client.get("/healthz")).status_code == 200
            server.cancel()
            with pytest.raises(asyncio.CancelledError):
                await server
            with pytest.raises(httpx.ConnectError):
                await client.get("/healthz")

    asyncio.run(run())


def test_a_request_under_way_is_answered_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.api.server._DRAIN_S", 60)

    class Slow(FakeReadSide):
        def __init__(self) -> None:
            super().__init__()
            self.asked, self.may_continue = asyncio.Event(), asyncio.Event()

        async def approximate_num_entries(self, store: str, reading: Reading | None = None) -> int:
            self.asked.set()
            await self.may_continue.wait()
            return 42

    async def run() -> None:
        slow = Slow()
        server, address = await _started(slow)
        async with httpx.AsyncClient(base_url=address, timeout=PATIENCE_S) as client:
            path = "/v1/applications/word-count/stores/counts/approximate-count"
            answer = asyncio.ensure_future(client.get(path))
            await slow.asked.wait()
            server.cancel()
            slow.may_continue.set()
            assert (await answer).json()["approximate_count"] == 42
            with pytest.raises(asyncio.CancelledError):
                await server

    asyncio.run(run())


def test_a_port_in_use_is_reported_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is in use by another program") as refused:
            _serve(ServerSettings(port=port))
        assert "\n" not in str(refused.value)


def test_an_address_that_is_not_of_this_machine_is_refused(protected: ServerSettings) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
        _serve(replace(protected, host="192.0.2.1"))


# ---- servers that others can reach ----

READ = Token.of(Scope.READ, "read-token-of-somebody")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"), "authority")


@pytest.fixture(scope="module")
def protected(authority: Authority) -> ServerSettings:
    """Settings with which the server may listen on addresses that others can reach."""
    own = authority.identity("server")
    return ServerSettings(certificate=own.certificate, key=own.key, tokens=(READ,))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
@pytest.mark.parametrize(
    ("without", "named"),
    [
        ({"certificate": None, "key": None}, r"Missing: TLS \(application\.server\.ssl\.certificate\.location, "),
        (
            {"tokens": ()},
            r"Missing: tokens \(application\.server\.tokens\.location, or .*PENSTOCK_API_TOKENS",
        ),
    ],
)
def test_the_server_does_not_listen_on_a_public_address_without_tls_and_tokens(
    host: str, without: dict[str, Any], named: str, protected: ServerSettings
) -> None:
    with pytest.raises(ConfigError, match=named):
        _serve(replace(protected, host=host, **without))


def test_a_name_counts_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("192.0.2.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", elsewhere)
    with pytest.raises(ConfigError, match="others can reach localhost"):
        _serve(ServerSettings(host="localhost"))


def test_with_both_it_listens_everywhere_and_answers_over_tls_alone(
    authority: Authority, protected: ServerSettings
) -> None:
    trust = ssl.create_default_context(cafile=authority.certificate)

    async def run() -> None:
        server, address = await _started(FakeReadSide(), replace(protected, host="0.0.0.0"))
        url = httpx.URL(address)
        assert (url.scheme, url.host in ("0.0.0.0", "127.0.0.1")) == ("https", False), "others can use it"
        there = f"https://127.0.0.1:{url.port}"
        token = {"Authorization": "Bearer read-token-of-somebody"}
        async with httpx.AsyncClient(verify=trust, timeout=PATIENCE_S) as client:
            assert (await client.get(f"{there}/v1/applications/word-count", headers=token)).status_code == 200
            assert (await client.get(f"{there}/v1/applications/word-count")).status_code == 401
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(f"{there.replace('https', 'http')}/healthz")
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                await client.get(f"{there}/healthz")
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server

    asyncio.run(run())


def test_a_machine_without_a_way_to_others_is_shown_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.api.server._ELSEWHERE", ())
    assert _own_address() == socket.gethostname()


def test_old_tls_is_not_spoken(protected: ServerSettings) -> None:
    async def speaks(port: int, version: ssl.TLSVersion) -> bool:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            context.minimum_version = context.maximum_version = version
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        except (ssl.SSLError, ConnectionResetError):
            return False
        writer.close()
        return True

    async def run() -> None:
        server, address = await _started(FakeReadSide(), protected)
        port = int(address.rpartition(":")[2])
        versions = ("TLSv1", "TLSv1_1", "TLSv1_2", "TLSv1_3")
        spoken = [name for name in versions if await speaks(port, ssl.TLSVersion[name])]
        assert spoken == ["TLSv1_2", "TLSv1_3"]
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server

    asyncio.run(run())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"key": Path("/none.pem")}, r"application\.server\.ssl\.key\.location: cannot read /none\.pem on "),
        (
            {"certificate": Path("/none.pem")},
            r"ssl\.certificate\.location: cannot read /none\.pem",
        ),
        ({"certificate": Path(__file__)}, "are no certificate in PEM and its key"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_named(
    wrong: dict[str, Any], message: str, protected: ServerSettings
) -> None:
    with pytest.raises(ConfigError, match=message):
        _serve(replace(protected, **wrong))


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(authority: Authority) -> None:
    own = authority.identity("encrypted")
    settings = ServerSettings(certificate=own.certificate, key=own.encrypted_key)
    with pytest.raises(ConfigError, match="without a password"):
        _serve(settings)


# ---- limits of a connection ----


@pytest.mark.parametrize("head", ["GET /?x={filler} HTTP/1.1\r\n", "GET / HTTP/1.1\r\nX-Filler: {filler}\r\n"])
def test_a_head_without_end_is_refused_and_not_kept(head: str) -> None:
    async def run() -> bytes:
        server, address = await _started(FakeReadSide())
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        writer.write(head.format(filler="x" * (LARGEST_HEAD + 1)).encode())
        answer = await reader.read()
        writer.close()
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server
        return answer

    answer = asyncio.run(run())
    assert answer.startswith(b"HTTP/1.1 400 Bad Request")
    assert f"may have {LARGEST_HEAD} bytes".encode() in answer


def test_heads_and_bodies_of_one_connection_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.api.connections.LARGEST_HEAD", 1000)

    async def run() -> None:
        server, address = await _started(FakeReadSide())
        async with httpx.AsyncClient(base_url=address, timeout=PATIENCE_S) as client:
            for _ in range(20):
                assert (await client.get("/healthz", headers={"X-Filler": "x" * 500})).status_code == 200
            keys = {"keys": ["x" * 100] * 50}
            path = "/v1/applications/word-count/stores/counts/keys:batch"
            assert (await client.post(path, json=keys)).status_code == 200
            assert (await client.get("/healthz")).status_code == 200
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server

    asyncio.run(run())


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
