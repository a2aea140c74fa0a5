"""The page of a real application: Ray, Kafka, RocksDB, the HTTP server, and a browser."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect

from tests.cluster.conftest import WordCount
from tests.page.chromium import chromium
from tests.page.views import finding, opened, shown
from tests.page.watch import Watch
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.submission

LINES = ["the quick brown fox", "jumps over the lazy dog", "the end"] * 10
_EACH_S = 0.1
_RATE = re.compile(r"[1-9][0-9,.]*( k)?/s")


@contextmanager
def lines_arrive(it: WordCount) -> Iterator[None]:
    """Sends lines the whole time."""
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(_EACH_S):
            it.send(LINES)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_the_page_shows_a_running_application_and_pauses_and_resumes_it(word_count: Callable[[], WordCount]) -> None:
    it = word_count()
    app = it.app(tasks_per_actor=4)
    app.start()
    app.wait_until_running(PATIENCE_S)
    address = app.status().http_address
    assert address is not None
    watch = Watch(address)
    with lines_arrive(it), chromium() as browser, browser.new_context() as context:
        context.set_default_timeout(1000 * PATIENCE_S)
        expect.set_options(timeout=1000 * PATIENCE_S)
        watch.over(context)
        page = context.new_page()
        opened(page, address)
        expect(finding(page, "All is well: 4 tasks on 1 actor")).to_be_visible()
        expect(page.get_by_role("main")).to_contain_text("Throughput")

        page.get_by_role("link", name="Tasks", exact=True).click()
        shown(page, "tasks")
        for task in ("0_0", "0_1", "1_0", "1_1"):
            expect(page.get_by_role("row", name=task)).to_contain_text(_RATE)

        page.get_by_role("link", name="Topology", exact=True).click()
        shown(page, "topology")
        picture = page.locator("svg.picture")
        expect(picture.locator(".rate", has_text=_RATE).first).to_be_visible()
        expect(picture.get_by_role("link", name=re.compile("counts"))).not_to_have_count(0)

        page.get_by_role("link", name="Stores", exact=True).click()
        page.get_by_role("link", name="counts", exact=True).click()
        page.get_by_label("Key", exact=True).fill("fox")
        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_role("table", name="Rows of the answer").get_by_role("rowheader")).to_have_text('"fox"')

        page.get_by_role("link", name="Tasks", exact=True).click()
        _order(page, "Pause")
        expect(page.locator("header .state")).to_have_text("paused")
        assert app.status().paused
        _order(page, "Resume")
        expect(page.locator("header .state")).to_have_text("running")
        assert not app.status().paused
    assert watch.unexpected() == []
    assert app.close()


def _order(page: Page, name: str) -> None:
    page.get_by_role("button", name=f"{name} …").click()
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()
