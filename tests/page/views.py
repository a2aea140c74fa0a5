"""The views of the page, and the way to one of them."""

from __future__ import annotations

from urllib.parse import quote

from playwright.sync_api import Locator, Page, expect

VIEWS = ("overview", "topology", "tasks", "stores", "time", "records", "slow", "rollout")
THEMES = ("light", "dark")


def opened(page: Page, url: str, view: str = "overview", subject: str = "") -> Locator:
    """Opens a view in ``page``, and returns it when the live stream has brought its figures."""
    page.goto(f"{url}/#/{view}" + (f"/{quote(subject, safe='')}" if subject else ""))
    return shown(page, view)


def shown(page: Page, view: str) -> Locator:
    """Returns the view when the page shows it."""
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live")
    expect(page.locator("section[data-view]")).to_have_attribute("data-view", view)
    return page.locator("section[data-view]")


def finding(page: Page, text: str) -> Locator:
    """Returns the finding whose sentence has ``text``."""
    return page.get_by_test_id("findings").locator(".finding", has_text=text)
