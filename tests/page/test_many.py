"""A large application, 200 tasks and 100 operators, in the page: all is there, and a person can work with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from penstock.cluster.read_side import ApplicationStatus
from tests.api.fake import FakeReadSide
from tests.page.applications import runs, wide_status, wide_topology
from tests.page.server import PageServer, page_server
from tests.page.views import VIEWS, finding, opened, shown
from tests.page.watch import Watch


class Changing(FakeReadSide):
    """A wide application all of whose figures change each time it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.step = wide_topology(), 0
        runs(self, self.wide, wide_status(self.wide, 0))

    async def status(self) -> ApplicationStatus:
        self.step += 1
        return wide_status(self.wide, self.step)


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
