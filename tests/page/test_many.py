"""A large application, 200 tasks and 100 operators, in the page: all is there, and a person can work with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.page.applications import Changing
from tests.page.server import PageServer, page_server
from tests.page.views import VIEWS, finding, opened, shown
from tests.page.watch import Watch


@pytest.fixture(scope="module")
def many() -> Iterator[PageServer]:
    with page_server(Changing()) as server:
        yield server


def test_all_views_can_be_visited_while_all_figures_change(many: PageServer, page: Page, watch: Watch) -> None:
    watch.own = many.url
    opened(page, many.url)
    expect(finding(page, "200 tasks on 20 actors")).to_be_visible()
    for view in (*VIEWS, *reversed(VIEWS)):
        page.get_by_role("navigation").locator(f"a[href='#/{view}']").click()
        shown(page, view)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
