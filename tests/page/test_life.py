"""A key's life in the view of the stores."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.api.test_life import records_of
from tests.page.server import PageServer
from tests.page.views import opened


def test_the_versions_of_a_key_are_read_from_the_changelog_page_by_page(server: PageServer, page: Page) -> None:
    server.side.records.of_keys["per-customer", "changelog", "a/b"] = records_of("counts-changelog")
    view = opened(page, server.url, "stores", "per-customer")
    page.get_by_label("Key of the records").fill("a/b")
    page.get_by_role("button", name="Read").click()
    rows = view.get_by_role("table", name="Records of the topic").get_by_role("rowheader")
    found = len(records_of("counts-changelog").records)
    expect(rows).to_have_count(found)
    expect(view).to_contain_text("Of counts-changelog, the newest first; the topic is compacted")
    page.get_by_role("button", name="Older records").click()
    expect(rows).to_have_count(2 * found)
    assert [scan.cursor for scan in server.side.records.scans] == [None, "1:4"]
