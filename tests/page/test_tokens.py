"""Tokens in the page: asked for, kept in the tab alone, and never part of an address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from penstock.cluster.client.server_settings import Scope, ServerSettings, Token
from tests.api.fake import FakeReadSide
from tests.page.applications import orders_topology, runs, status_of
from tests.page.server import PageServer, page_server
from tests.page.test_letters import letter
from tests.page.views import finding, shown
from tests.page.watch import Watch

READ, OPERATE = "read-0123456789abcdef", "operate-0123456789abcdef"


@pytest.fixture(scope="package")
def guarded_server() -> Iterator[PageServer]:
    tokens = (Token.of(Scope.READ, READ), Token.of(Scope.OPERATE, OPERATE))
    with page_server(FakeReadSide(), ServerSettings(tokens=tokens)) as server:
        yield server


@pytest.fixture
def guarded(guarded_server: PageServer, watch: Watch) -> PageServer:
    runs(guarded_server.side, orders_topology(), status_of(orders_topology()))
    watch.own = guarded_server.url
    return guarded_server


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Continue").click()


def test_without_a_token_the_page_shows_a_form_and_nothing_of_the_application(guarded: PageServer, page: Page) -> None:
    page.goto(guarded.url)
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.get_by_text("word-count")).to_have_count(0)


def test_a_wrong_token_is_refused_in_words_and_a_right_one_then_shows_the_page(guarded: PageServer, page: Page) -> None:
    page.goto(guarded.url)
    sign_in(page, "wrong-0123456789abcdef")
    expect(page.get_by_role("alert")).to_have_text("The server does not accept the last token.")
    sign_in(page, READ)
    shown(page, "overview")
    expect(finding(page, "All is well")).to_be_visible()


@pytest.mark.parametrize("token", [READ, OPERATE])
def test_a_token_is_in_no_address_and_is_not_kept_beyond_the_tab(
    guarded: PageServer, page: Page, watch: Watch, token: str
) -> None:
    page.goto(guarded.url)
    sign_in(page, token)
    shown(page, "overview")
    page.reload()
    shown(page, "overview")
    assert token not in page.url
    assert [url for url in watch.requests if token in url] == []
    assert token not in page.evaluate("JSON.stringify(localStorage) + document.cookie")
    another = page.context.new_page()
    another.goto(guarded.url)
    expect(another.get_by_label("Token")).to_be_visible()


def test_a_token_can_be_forgotten(guarded: PageServer, page: Page) -> None:
    page.goto(guarded.url)
    sign_in(page, READ)
    shown(page, "overview")
    page.get_by_role("button", name="Forget token").click()
    expect(page.get_by_label("Token")).to_be_visible()
    expect(page.get_by_text("All is well")).to_have_count(0)
    assert READ not in page.evaluate("JSON.stringify(sessionStorage)")


def test_a_token_that_is_withdrawn_is_asked_for_again(guarded: PageServer, page: Page, watch: Watch) -> None:
    watch.expected = ["401", "ERR_"]
    tokens = (Token.of(Scope.READ, READ),)
    with page_server(guarded.side, ServerSettings(tokens=tokens)) as own:
        watch.own = own.url
        page.goto(own.url)
        sign_in(page, READ)
        shown(page, "overview")
        own.stop()
        own.tokens = (Token.of(Scope.READ, OPERATE),)
        own.start()
        expect(page.get_by_label("Token")).to_be_visible()
        sign_in(page, OPERATE)
        shown(page, "overview")


def test_a_token_that_only_reads_sees_no_button_and_the_server_refuses_it_too(
    guarded: PageServer, page: Page, watch: Watch
) -> None:
    watch.expected = ["status of 403"]
    page.goto(guarded.url + "/#/tasks")
    sign_in(page, READ)
    shown(page, "tasks")
    expect(page.get_by_role("rowheader", name="0_0")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    page.goto(guarded.url + "/#/slow")
    expect(shown(page, "slow").get_by_role("rowheader", name="stream/1")).to_be_visible()
    expect(page.get_by_role("button", name="Flame graph")).to_have_count(0)
    guarded.side.letters.topic, guarded.side.letters.letters = "orders-dlq", [letter(1)]
    page.goto(guarded.url + "/#/records/letters%3A")
    expect(shown(page, "records").get_by_role("rowheader", name="0@1")).to_be_visible()
    expect(page.get_by_role("button", name="Replay")).to_have_count(0)
    expect(page.get_by_role("checkbox")).to_have_count(0)
    refused = page.evaluate(_PAUSE, READ)
    assert refused == [403, "urn:penstock:problem:scope-too-small"]
    assert not guarded.side.current.paused


def test_a_token_that_may_operate_pauses_the_application(guarded: PageServer, page: Page) -> None:
    page.goto(guarded.url + "/#/tasks")
    sign_in(page, OPERATE)
    page.get_by_role("button", name="Pause …").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("header .state")).to_have_text("paused")
    assert guarded.side.current.paused


_PAUSE = """async (token) => {
    const headers = { Authorization: `Bearer ${token}` };
    const answer = await fetch("/v1/applications/word-count/pause", { method: "POST", headers });
    return [answer.status, (await answer.json()).type];
}"""
