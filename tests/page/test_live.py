"""The live stream in the page: figures change while one looks, and a lost connection comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from penstock.cluster.read_side import ApplicationState
from tests.api.fake import FakeReadSide
from tests.page.applications import lags, orders_topology, runs, status_of, with_task
from tests.page.server import PageServer, page_server
from tests.page.views import finding, opened, shown
from tests.page.watch import Watch


def test_a_change_of_the_application_shows_without_a_reload(server: PageServer, page: Page) -> None:
    overview = opened(page, server.url)
    expect(finding(page, "All is well: 8 tasks on 2 actors")).to_be_visible()
    late = with_task(server.side.current, "0_2", behind_s=41.0, lags=lags("orders", 2, 123_456))
    server.side.current = late
    expect(finding(page, "1 of 8 tasks is behind by 41 s")).to_be_visible()
    expect(overview).to_contain_text("41 s")
    expect(finding(page, "All is well")).to_have_count(0)


def test_the_state_in_the_header_follows_the_application(server: PageServer, page: Page) -> None:
    opened(page, server.url)
    expect(page.locator("header .state")).to_have_text("running")
    server.side.current = replace(server.side.current, paused=True)
    expect(page.locator("header .state")).to_have_text("paused")
    server.side.current = replace(server.side.current, state=ApplicationState.REBALANCING, paused=False)
    expect(page.locator("header .state")).to_have_text("rebalancing")


def test_the_title_of_the_tab_names_the_view(server: PageServer, page: Page) -> None:
    opened(page, server.url)
    expect(page).to_have_title("Overview – penstock")


def test_a_server_that_comes_back_is_shown_again_with_what_changed_meanwhile(page: Page, watch: Watch) -> None:
    # Which one depends on what the server was doing with a connection.
    watch.expected = [r"net::ERR_(CONNECTION_\w+|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|SOCKET_NOT_CONNECTED)\b"]
    side = FakeReadSide()
    runs(side, orders_topology(), status_of(orders_topology()))
    with page_server(side) as own:
        watch.own = own.url
        opened(page, own.url)
        own.stop()
        expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "waiting")
        expect(page.get_by_test_id("connection")).to_contain_text("not connected since")
        state = page.locator("header .state")
        expect(state).to_have_text("last known: running")
        expect(state).not_to_have_attribute("data-state", "RUNNING")
        # The last figures remain: they are what one knows.
        expect(finding(page, "All is well: 8 tasks")).to_be_visible()
        boxes = [found.bounding_box() for found in page.locator("main .finding").all()]
        old, last = boxes[0], boxes[1]
        assert old is not None
        assert last is not None
        assert last["y"] > old["y"] + old["height"]
        side.current = with_task(side.current, "1_0", behind_s=77.0, lags=lags("customers", 0, 9))
        own.start()
        shown(page, "overview")
        expect(finding(page, "1 of 8 tasks is behind by 77 s")).to_be_visible()
        expect(state).to_have_text("running")


def test_a_coordinator_that_does_not_answer_is_a_finding_until_it_does(server: PageServer, page: Page) -> None:
    from penstock.common.errors import ApplicationStateError

    opened(page, server.url)
    server.side.failure = ApplicationStateError("the coordinator is being replaced")
    expect(finding(page, "the coordinator is being replaced")).to_be_visible()
    server.side.failure = None
    expect(finding(page, "All is well")).to_be_visible()


@pytest.mark.parametrize("path", ["/", "/#/overview", "/#/no-such-view", "/#/overview/%E0%A4%A", "/#"])
def test_every_address_shows_a_view(server: PageServer, page: Page, path: str) -> None:
    page.goto(server.url + path)
    shown(page, "overview")
