"""One browser and one server for all tests of the page, and a browser context for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from penstock.api.page import live_feed
from tests.api.fake import FakeReadSide
from tests.page.applications import orders_topology, runs, status_of
from tests.page.chromium import PATIENCE_MS, chromium
from tests.page.server import PageServer, page_server
from tests.page.watch import Watch


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser. It ends with the last test of this folder: see :func:`tests.page.chromium.chromium`."""
    expect.set_options(timeout=PATIENCE_MS)
    with chromium() as running:
        yield running


@pytest.fixture(scope="package", autouse=True)
def brisk() -> Iterator[None]:
    """Servers look for changes ten times a second, not once, so that tests wait less."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live_feed, "ASK_EVERY_S", 0.1)
        yield


@pytest.fixture(scope="package")
def shared_server() -> Iterator[PageServer]:
    """A server without tokens, whose read side each test sets."""
    with page_server(FakeReadSide()) as server:
        yield server


@pytest.fixture
def server(shared_server: PageServer) -> PageServer:
    """The server of an application in which all is well."""
    topology = orders_topology()
    runs(shared_server.side, topology, status_of(topology))
    return shared_server


@pytest.fixture
def watch(server: PageServer) -> Iterator[Watch]:
    """The complaints about the page: at the end of the test there must be none."""
    watch = Watch(server.url)
    yield watch
    assert watch.unexpected() == []


@pytest.fixture
def context(browser: Browser, watch: Watch) -> Iterator[BrowserContext]:
    """A fresh profile of the browser, watched."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme="light", timezone_id="UTC", locale="en-GB"
    )
    context.set_default_timeout(PATIENCE_MS)
    watch.over(context)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A tab."""
    return context.new_page()
