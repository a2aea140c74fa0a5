"""The content security policy of the page, and the browser's obedience to it."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page

from tests.page.server import PageServer
from tests.page.views import VIEWS, opened
from tests.page.watch import Watch
from tests.waiting import PATIENCE_S


def test_the_policy_allows_the_page_its_own_files_and_nothing_unsafe(server: PageServer) -> None:
    answer = httpx.get(server.url, headers={"Accept": "text/html"}, timeout=PATIENCE_S)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_violates_nothing_and_asks_no_other_host(
    server: PageServer, page: Page, watch: Watch, view: str
) -> None:
    opened(page, server.url, view)
    assert watch.complaints == []
    assert {url.split("/")[2] for url in watch.requests} == {server.url.split("/")[2]}


@pytest.mark.parametrize(
    "injected",
    [
        "const it = document.createElement('script'); it.textContent = 'window.ran = 1'; document.body.append(it)",
        "document.body.insertAdjacentHTML('beforeend', '<img src=x:y onerror=\"window.ran = 1\">')",
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">red</p>')",
    ],
    ids=["script", "handler", "style"],
)
def test_markup_that_would_run_or_style_is_a_violation_that_these_tests_notice(
    server: PageServer, page: Page, watch: Watch, injected: str
) -> None:
    opened(page, server.url)
    with page.expect_console_message(lambda message: "violated" in message.text):
        page.evaluate(f"() => {{ {injected} }}")
    assert page.evaluate("window.ran") is None
    assert watch.unexpected() != []
    watch.expected = ["violate", "x:y"]
