"""The page's files: who gets them, with which headers."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping

import httpx
import pytest

from penstock.api.page.files import FOLDER, page_files
from penstock.cluster.client.server_settings import Scope, ServerSettings, Token
from tests.api.fake import FakeReadSide
from tests.api.served import served
from tests.waiting import PATIENCE_S

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
TOKENS = ServerSettings(tokens=(Token.of(Scope.READ, "read-token-0123456789"),))


def ask(path: str, headers: Mapping[str, str] | None = None, settings: ServerSettings | None = None) -> httpx.Response:
    """Returns the answer of a server over a socket."""
    found: list[httpx.Response] = []

    async def play(url: str, _: int) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            client.headers["accept-encoding"] = "identity"
            found.append(await client.get(path, headers=headers or {}))

    asyncio.run(served(play, FakeReadSide(), settings))
    return found[0]


@pytest.mark.parametrize("accept", [CHROMIUM, "text/html", "text/html;q=0.5, application/json;q=0.4", "TEXT/HTML"])
@pytest.mark.parametrize("settings", [None, TOKENS], ids=["without tokens", "with tokens"])
def test_a_browser_gets_the_page_at_the_root_without_a_token(accept: str, settings: ServerSettings | None) -> None:
    answer = ask("/", {"Accept": accept}, settings)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.content == (FOLDER / "index.html").read_bytes()
    assert answer.headers["vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize(
    "accept",
    ["*/*", "application/json", "", "text/html;q=0, */*", "text/html;q=x", "text/html;q=0.1, application/json"],
)
def test_all_others_get_links_as_json(accept: str) -> None:
    answer = ask("/", {"Accept": accept})
    assert answer.json()["application"] == "/v1/applications/word-count"
    assert answer.headers["vary"] == "Accept"


@pytest.mark.parametrize("path", ["/", "/page/index.html"])
def test_the_page_may_run_only_its_own_files(path: str) -> None:
    headers = ask(path, {"Accept": CHROMIUM}).headers
    policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'",
        "img-src": "'self' data:", "font-src": "'self'", "base-uri": "'none'", "form-action": "'none'",
        "frame-ancestors": "'none'",
    }  # fmt: skip
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")


def test_no_answer_is_taken_for_another_type_than_its_own() -> None:
    for path in ("/v1/applications/word-count", "/healthz", "/v2/nothing", "/docs", "/metrics"):
        assert ask(path).headers.get_list("x-content-type-options") == ["nosniff"], path


def test_every_file_of_the_page_is_served_plain_and_compressed() -> None:
    files = {file.name: file.read_bytes() for file in FOLDER.iterdir()}
    assert files.keys() == page_files().keys(), "a file has a media type that is not served"

    async def play(url: str, _: int) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            for name, content in files.items():
                plain = await client.get(f"/page/{name}", headers={"Accept-Encoding": "br, gzip;q=0"})
                small = await client.get(f"/page/{name}", headers={"Accept-Encoding": "br, gzip"})
                assert (plain.content, small.content) == (content, content)
                assert "content-encoding" not in plain.headers
                assert small.headers["content-encoding"] == "gzip"
                assert int(small.headers["content-length"]) == len(gzip.compress(content, mtime=0))
                assert plain.headers["etag"] != small.headers["etag"]
                assert small.headers["vary"] == "Accept-Encoding"

    asyncio.run(served(play, FakeReadSide()))


def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    tag = ask("/page/index.html").headers["etag"]
    assert ask("/page/index.html").headers["cache-control"] == "no-cache"
    for known in (tag, f'"other", {tag}', f"W/{tag}"):
        again = ask("/page/index.html", {"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert "content-security-policy" in again.headers
    assert ask("/page/index.html", {"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/page/none.js", "/page/", "/page/..%2F..%2Fapp.py", "/page/%2e%2e/files.py", "/page/files.py"]
)
def test_what_is_no_file_of_the_page_is_not_found(path: str) -> None:
    assert ask(path).status_code == 404
