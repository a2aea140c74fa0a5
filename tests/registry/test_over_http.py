"""A registry over HTTP: what each of its answers means. The server here gives the answers that a test asks for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import penstock as ps
from penstock.common.serdes import bound
from penstock.registry.confluent import ConfluentRegistry
from penstock.registry.contracts import Reference, RegisteredSchema, Schema, SchemaNotFoundError, SchemaRefusedError
from tests.ports import closed_port

STRING = Schema('"string"')


@dataclass
class Answers:
    url: str
    status: int = 200
    body: bytes = b"{}"

    def __post_init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []

    def say(self, status: int, body: Any) -> None:
        self.status, self.body = status, body if isinstance(body, bytes) else json.dumps(body).encode()


@pytest.fixture
def server() -> Iterator[Answers]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answers.requests.append((self.command, self.path, dict(self.headers), json.loads(sent) if sent else None))
            self.send_response(answers.status)
            self.send_header("Content-Length", str(len(answers.body)))
            self.end_headers()
            self.wfile.write(answers.body)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    answers = Answers(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    yield answers
    http.shutdown()
    thread.join()
    http.server_close()


CALLS: dict[str, Callable[[ConfluentRegistry], object]] = {
    "schema": lambda registry: registry.schema(7),
    "register": lambda registry: registry.register("t-value", STRING, False),
    "lookup": lambda registry: registry.lookup("t-value", STRING, False),
    "latest": lambda registry: registry.latest("t-value"),
    "version": lambda registry: registry.version("t-value", 2),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("status", "body", "kind", "why"),
    [
        (401, {"error_code": 401, "message": "Unauthorized"}, ps.RetriableError, r"Unauthorized \(HTTP 401.*Fix basic"),
        (403, {"error_code": 403, "message": "no"}, ps.RetriableError, r"Fix basic\.auth\.user\.info or bearer"),
        (500, {"error_code": 50001, "message": "store"}, ps.RetriableError, r"store \(HTTP 500, code 50001\)\. It is"),
        (503, b"<html>", ps.RetriableError, "HTTP 503"),
        (429, {"message": "slow down"}, ps.RetriableError, "HTTP 429"),
        (404, b"nothing here", ps.RetriableError, r"no answer of a schema registry: fix schema\.registry\.url"),
        (404, {"error_code": 40403, "message": "Schema not found"}, SchemaNotFoundError, "Schema not found"),
        (404, {"error_code": 40401, "message": "Subject"}, SchemaNotFoundError, "Subject"),
        (409, {"error_code": 409, "message": "incompatible"}, SchemaRefusedError, "refuses the .*incompatible"),
        (422, {"error_code": 42201, "message": "Invalid"}, SchemaRefusedError, "Invalid"),
        (302, b"", ps.RetriableError, r"no answer of a schema registry: fix schema\.registry\.url"),
        (
            200,
            {"hello": "world"},
            ps.RetriableError,
            r"does not answer: TypeError: its answer has None for a (str|int)\.",
        ),
        (200, b"no json", ps.RetriableError, "does not answer: JSONDecodeError"),
    ],
)
def test_an_answer_of_the_registry_becomes_the_error_that_fits(
    status: int, body: Any, kind: type[Exception], why: str, call: str, server: Answers
) -> None:
    server.say(status, body)
    with pytest.raises(kind, match=why) as raised:
        CALLS[call](ConfluentRegistry(server.url, {}))
    assert server.url in str(raised.value)
    assert len(server.requests) == 1, "callers try again"


def test_no_server_at_the_address_may_pass() -> None:
    with closed_port() as port:
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(ps.RetriableError, match=rf"{url} does not answer: ConnectError.*Start it, or fix schema"):
            ConfluentRegistry(url, {}).schema(1)


def test_schemas_and_references_go_over_and_come_back(server: Answers) -> None:
    registry = ConfluentRegistry(server.url, {"basic.auth.user.info": "me:secret"})
    schema = Schema("text", "PROTOBUF", (Reference("a.proto", "a.proto", 3),))
    server.say(200, {"id": 4})
    assert registry.register("t-value", schema, True) == 4
    method, path, headers, sent = server.requests[0]
    assert (method, path) == ("POST", "/subjects/t-value/versions?normalize=True")
    assert headers["Authorization"].startswith("Basic ")
    assert sent == {
        "schema": "text",
        "schemaType": "PROTOBUF",
        "references": [{"name": "a.proto", "subject": "a.proto", "version": 3}],
    }
    server.say(200, {**sent, "id": 4, "version": 2, "subject": "t-value"})
    assert registry.latest("t-value") == RegisteredSchema(4, 2, "t-value", schema)
    assert registry.latest("t-value")
    assert len(server.requests) == 3, "the newest version is asked for each time"


def test_a_token_alone_is_enough(server: Answers) -> None:
    server.say(200, {"schema": '"string"'})
    settings = {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "abc"}
    assert ConfluentRegistry(server.url, settings).schema(1) == STRING
    assert server.requests[0][2]["Authorization"] == "Bearer abc"


def test_compatible_or_not(server: Answers) -> None:
    registry = ConfluentRegistry(server.url, {})
    server.say(200, {"is_compatible": True})
    assert registry.conflicts("t-value", STRING) == []
    server.say(200, {"is_compatible": False})
    assert registry.conflicts("t-value", STRING) == [
        "the schema registry calls it incompatible with the versions of subject t-value"
    ]
    server.say(404, {"error_code": 40401, "message": "Subject"})
    assert registry.conflicts("t-value", STRING) == []


def test_a_setting_that_the_client_refuses_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ps.ConfigError, match=r"cannot be made: .*basic.auth.user.info must be in the form"):
        ConfluentRegistry("http://localhost", {"basic.auth.user.info": "me"})


def test_a_serde_reads_by_http(server: Answers) -> None:
    server.say(200, {"schema": '"string"'})
    serde = bound(ps.Serdes.avro(str), "t", "value", {"schema.registry.url": server.url})
    assert serde.deserialize(b"\0\0\0\0\x07\x02a") == "a"
    assert serde.deserialize(b"\0\0\0\0\x07\x02b") == "b"
    assert [path for _, path, _, _ in server.requests] == ["/schemas/ids/7"]
