"""The API under requests of all kinds, valid and not: it never fails, and its answers are those of its description.

The read side is the real one, over stores of every kind; schemathesis makes the requests out of the OpenAPI document.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import pytest
import requests
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from penstock.api.app import create_app
from penstock.cluster.client.server_settings import Scope, ServerSettings, Token
from penstock.cluster.queries.queries import StateQueries
from tests.actors.rig import APPLICATION
from tests.api.fake import FakeReadSide
from tests.cluster.queries_page import application_of_the_page

pytestmark = pytest.mark.xdist_group("http fuzz")

TOKEN = "operate-token-0123456789"
SETTINGS = ServerSettings(tokens=(Token.of(Scope.OPERATE, TOKEN),), max_ranges_per_second=1_000_000)
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance,
]  # fmt: skip
WORDS = {"order": ("asc", "desc"), "isolation": ("latest", "committed")}
NUMBERS = {"limit": (1, 10_000), "wait_ms": (0, 10_000)}
STORES = {"window": "per-minute", "session": "visits", "version": "prices", "history": "prices"}

# Without tokens: if they were described, schemathesis would take them away and expect a refusal.
schema = schemathesis.openapi.from_dict(create_app(FakeReadSide()).openapi())


class Api:
    """The API of the application of docs/QUERIES.md, without a socket, and without a client that corrects requests."""

    def __init__(self) -> None:
        self._app = create_app(StateQueries(APPLICATION), SETTINGS)
        self._runner = asyncio.Runner()
        self.query = ""

    def ask(self, case: Case[Any], token: str | None = TOKEN) -> httpx.Response:
        """Returns the answer to the case as it is."""
        wanted = requests.Request(**case.as_transport_kwargs(base_url="http://localhost")).prepare()
        body = wanted.body.encode() if isinstance(wanted.body, str) else wanted.body or b""
        assert isinstance(body, bytes)
        given = [(name, str(value)) for name, value in wanted.headers.items()]
        if token is not None:
            given.append(("authorization", f"Bearer {token}"))
        url = urlsplit(str(wanted.url))
        self.query = url.query
        scope = {
            "type": "http", "http_version": "1.1", "method": wanted.method, "scheme": "http", "root_path": "",
            "path": unquote(url.path), "raw_path": url.path.encode(), "query_string": url.query.encode(),
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given],
            "server": ("penstock", 80), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        return self._runner.run(self._answer(scope, body))

    async def _answer(self, scope: dict[str, Any], body: bytes) -> httpx.Response:
        responses: list[dict[str, Any]] = []

        asked, began = False, asyncio.Event()

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if asked:  # the client of an answer without an end leaves after its beginning
                await began.wait()
                return {"type": "http.disconnect"}
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            responses.append(message)
            if message.get("body"):
                began.set()

        await self._app(scope, receive, send)
        content = b"".join(message.get("body", b"") for message in responses)
        request = httpx.Request(scope["method"], "http://localhost")
        answer = httpx.Response(
            responses[0]["status"], headers=responses[0]["headers"], content=content, request=request
        )
        answer.elapsed = timedelta(0)
        return answer

    def close(self) -> None:
        self._runner.close()


OPERATIONS = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
# Not schemathesis' own: its tests have one id in common, and pytest-xdist runs each id once.
each_route = pytest.mark.parametrize("operation", OPERATIONS, ids=[operation.label for operation in OPERATIONS])


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    it = application_of_the_page(tmp_path_factory.mktemp("state"))
    with pytest.MonkeyPatch.context() as patch, closing(Api()) as asked:
        patch.setattr("ray.get_actor", lambda *_: it)
        yield asked
    it.close()


def near_what_there_is(case: Case[Any]) -> Case[Any]:
    """Lets most cases name what exists: by chance alone, nearly all would name an application that does not exist."""
    noise = zlib.crc32(repr((case.path_parameters, case.query)).encode())
    if noise % 8 == 0 or not case.path_parameters:
        return case
    case.path_parameters["app"] = APPLICATION
    if "store" in case.path_parameters and noise % 8 != 1:
        fitting = next((name for kind, name in STORES.items() if kind in case.path), "total")
        case.path_parameters["store"] = fitting if noise % 8 > 2 else ("total", "visits")[noise // 8 % 2]
    if "topic" in case.path_parameters and noise % 3:
        case.path_parameters["topic"] = "letters" if "dead-letters" in case.path else "clicks"
        if "offset" in case.path_parameters:
            case.path_parameters |= {"partition": 0, "offset": 0}
    if "task" in case.path_parameters and noise % 3:
        case.path_parameters["task"] = "0_0"
    if "actor" in case.path_parameters and noise % 3:
        case.path_parameters["actor"] = "a"
    if "key" in case.path_parameters and noise % 3:
        case.path_parameters["key"] = "tea" if "prices" in case.path_parameters.values() else "ada"
    return case


@each_route
@given(data=st.data())
@settings(max_examples=60, derandomize=True)
def test_every_answer_is_one_that_the_openapi_document_describes(data: st.DataObject, operation: Any, api: Api) -> None:
    case = data.draw(operation.as_strategy())
    answer = api.ask(near_what_there_is(case))
    case.validate_response(answer, checks=CHECKS)
    assert answer.status_code >= 400 or not is_wrong(api.query)
    seen.add((case.operation.label, answer.status_code))


def is_wrong(query: str) -> bool:
    """Returns True if ``query`` must be refused. (schemathesis' own check sees it before it is sent: a list of one.)"""
    given = parse_qsl(query, keep_blank_values=True)
    wrong = [name for name, value in given if name in WORDS and value not in WORDS[name]]
    wrong += [name for name, value in given if name in NUMBERS and not is_between(value, *NUMBERS[name])]
    return bool(wrong) or len(given) > len(dict(given))


def is_between(text: str, least: int, most: int) -> bool:
    try:
        return least <= float(text) <= most and float(text).is_integer()
    except ValueError:
        return False


seen: set[tuple[str, int]] = set()


def test_of_what_was_asked_each_route_has_answered_some_and_refused_some() -> None:
    routes = {label for label, _ in seen}
    assert len(routes) == len(OPERATIONS)
    assert {label for label, status in seen if status == 200} == routes


@each_route
@given(data=st.data())
@settings(max_examples=1)
def test_a_protected_route_refuses_a_request_without_a_token(data: st.DataObject, operation: Any, api: Api) -> None:
    case = data.draw(operation.as_strategy())
    if case.path not in ("/", "/healthz", "/readyz"):
        assert api.ask(near_what_there_is(case), token=None).status_code == 401
