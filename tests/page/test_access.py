"""The page for those who use a keyboard, a screen reader or a telephone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page import axe
from tests.page.applications import lags, with_actor, with_task
from tests.page.chromium import PATIENCE_MS
from tests.page.server import PageServer
from tests.page.views import THEMES, VIEWS, finding, opened, shown
from tests.page.watch import Watch


def troubled(server: PageServer) -> None:
    """Has the application show findings of each level, and tasks in each state."""
    status = with_task(server.side.current, "0_2", behind_s=41.0, lags=lags("orders", 2, 123_456))
    status = with_actor(status, "stream/1", error="OSError: [Errno 28] No space left on device")
    server.side.current = replace(status, paused=True)


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_barrier(server: PageServer, page: Page, view: str) -> None:
    if view != VIEWS[0]:
        troubled(server)
    opened(page, server.url, view)
    expect(finding(page, "All is well" if view == VIEWS[0] else "No space left")).to_be_visible()
    for theme in THEMES:
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        assert axe.findings(page) == []
    # A finding of each level looks the same in all views.
    if view == VIEWS[0]:
        troubled(server)
        expect(finding(page, "No space left")).to_be_visible()
        assert axe.findings(page) == []


@pytest.mark.parametrize("view", VIEWS)
def test_a_telephone_shows_a_view_without_sideways_scrolling(server: PageServer, page: Page, view: str) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    troubled(server)
    opened(page, server.url, view)
    expect(finding(page, "No space left")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    inside = page.evaluate(
        """() => [...document.querySelectorAll("header *, nav a")]
            .filter((each) => each.checkVisibility() && each.getBoundingClientRect().right > innerWidth + 1)
            .map((each) => each.outerHTML.slice(0, 100))"""
    )
    assert [each for each in inside if "unseen" not in each] == []


def test_the_theme_is_that_of_the_system_until_another_is_chosen_and_that_choice_stays(
    server: PageServer, page: Page
) -> None:
    page.emulate_media(color_scheme="dark")
    opened(page, server.url)
    dark = _background(page)
    page.emulate_media(color_scheme="light")
    light = _background(page)
    assert dark != light
    page.get_by_label("Theme").select_option("dark")
    assert _background(page) == dark
    page.reload()
    shown(page, "overview")
    assert _background(page) == dark
    page.get_by_label("Theme").select_option("system")
    assert _background(page) == light


def test_the_keyboard_alone_reaches_the_content_the_views_and_the_theme(server: PageServer, page: Page) -> None:
    opened(page, server.url)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.reload()
    shown(page, "overview")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Theme")).to_be_focused()
    for link in page.get_by_role("navigation").get_by_role("link").all():
        page.keyboard.press("Tab")
        expect(link).to_be_focused()
    page.keyboard.press("Enter")
    shown(page, VIEWS[-1])


def test_what_has_the_focus_is_visibly_marked(server: PageServer, page: Page) -> None:
    opened(page, server.url)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_a_screen_reader_is_told_of_another_finding_and_not_of_each_new_figure_in_it(
    server: PageServer, page: Page
) -> None:
    opened(page, server.url)
    announced = page.get_by_test_id("findings").locator("[aria-live=polite]")
    expect(announced).to_contain_text("All is well")
    server.side.current = with_task(server.side.current, "0_2", behind_s=41.0, lags=lags("orders", 2, 9))
    expect(announced).to_contain_text("behind by 41 s")
    server.side.current = with_task(server.side.current, "0_2", behind_s=42.0)
    expect(finding(page, "behind by 42 s")).to_be_visible()
    expect(announced).to_contain_text("behind by 41 s")


def test_nothing_moves_for_those_who_want_no_motion(browser: Browser, server: PageServer, watch: Watch) -> None:
    with browser.new_context(reduced_motion="reduce") as context:
        context.set_default_timeout(PATIENCE_MS)
        watch.over(context)
        page = context.new_page()
        opened(page, server.url)
        running = page.evaluate("document.getAnimations().filter((each) => each.playState === 'running').length")
    assert running == 0


def _background(page: Page) -> str:
    background: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return background
