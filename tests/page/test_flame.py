"""The flame graph of an actor: asked for, looked at, searched, and refused."""

from __future__ import annotations

import asyncio
import threading

import pytest
from playwright.sync_api import Page, expect

from penstock.cluster.read_side import Flame, FlameRefused
from penstock.common.errors import TaskNotReadyError
from penstock.common.metric_names import NODE
from tests.page import axe
from tests.page.applications import with_task
from tests.page.server import PageServer
from tests.page.stacks import TAKEN, deep
from tests.page.test_hostile import HOSTILE
from tests.page.views import THEMES, opened, shown
from tests.page.watch import Watch
from tests.waiting import PATIENCE_S


def take(page: Page, actor: str = "stream/1") -> None:
    page.get_by_role("button", name=f"Flame graph of {actor}").click()


def taken(server: PageServer, page: Page, flame: Flame = TAKEN) -> None:
    """Opens the graph of an actor with these stacks."""
    server.side.flames = {"stream/1": flame}
    opened(page, server.url, "slow")
    take(page)
    expect(page.get_by_role("heading", name="Flame graph of stream/1")).to_be_visible()
    expect(page.locator(".flame svg[role=application]")).to_be_visible()


def test_the_graph_shows_the_thread_of_the_tasks_with_the_programs_functions_apart(
    server: PageServer, page: Page
) -> None:
    taken(server, page)
    flame = page.get_by_role("region", name="Flame graph")
    expect(flame).to_contain_text("912 samples of all threads in 10.0 s, by py-spy")
    expect(flame.get_by_role("combobox", name="Thread").locator("option:checked")).to_have_text(
        "stream-loop (runs the tasks), 900 samples"
    )
    own = flame.get_by_role("button", name="with_price, shop/prices.py:31: 76 % of the samples")
    expect(own).to_have_class("flame-box of-program")
    expect(flame.get_by_role("button", name="Task.process")).to_have_class("flame-box of-penstock")
    expect(flame.get_by_text("the program: 20 %")).to_be_visible()
    table = flame.get_by_role("table", name="Functions with most samples")
    expect(table.get_by_role("rowheader")).to_contain_text(["JSONDecoder.decode", "rate_of", "count"])
    expect(table.get_by_role("row").nth(2)).to_contain_text("shop/currencies.py:12, 14")
    flame.get_by_role("combobox", name="Thread").select_option("all, 912 samples")
    expect(flame.get_by_role("button", name="Event.wait")).to_be_visible()


def test_while_the_actor_is_sampled_the_page_shows_the_time_and_goes_on(
    server: PageServer, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = threading.Event()

    async def flame(actor_id: str, seconds: float) -> Flame:
        assert (actor_id, seconds) == ("stream/1", 10)
        await asyncio.to_thread(end.wait, PATIENCE_S)
        return TAKEN

    monkeypatch.setattr(server.side, "flame", flame)
    try:
        opened(page, server.url, "slow")
        take(page)
        expect(page.get_by_label("Time of the samples")).to_be_visible()
        expect(page.get_by_role("button", name="Flame graph of stream/0")).to_be_disabled()
        page.get_by_role("link", name="Tasks", exact=True).click()
        shown(page, "tasks")
    finally:
        end.set()
    page.get_by_role("link", name="Why slow").click()
    expect(page.get_by_role("button", name="with_price")).to_be_visible()


def test_refusals_are_sentences(server: PageServer, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 503", "status of 404"]
    opened(page, server.url, "slow")
    flame = page.get_by_role("region", name="Flame graph")
    server.side.flames = {"stream/1": FlameRefused(3.2)}
    take(page)
    expect(flame).to_contain_text("actor stream/1 takes stacks for another request, for 4 s more at most")
    server.side.flames = {}
    take(page)
    expect(flame).to_contain_text("has no stream actor 'stream/1' now")
    server.side.flames = {"stream/1": TAKEN}
    take(page)
    expect(flame.get_by_role("button", name="with_price")).to_be_visible()


def test_an_actor_that_is_lost_meanwhile_is_a_sentence(
    server: PageServer, page: Page, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.expected = ["status of 503"]

    async def flame(actor_id: str, seconds: float) -> Flame:
        raise TaskNotReadyError("actor <b>stream/1</b> is lost")

    monkeypatch.setattr(server.side, "flame", flame)
    opened(page, server.url, "slow")
    take(page)
    expect(page.get_by_role("region", name="Flame graph")).to_contain_text("actor <b>stream/1</b> is lost")


def test_a_click_zooms_and_the_keyboard_walks_zooms_and_shows_all(server: PageServer, page: Page) -> None:
    taken(server, page)
    flame = page.locator(".flame")
    flame.get_by_role("button", name="with_price").click()
    expect(flame.get_by_role("button", name="Commits.flush")).to_have_count(0)
    expect(flame.get_by_role("button", name="stream-loop")).to_be_visible()
    flame.get_by_role("button", name="Show all").click()
    flame.get_by_role("button", name="StreamLoop.run").focus()
    page.keyboard.press("ArrowDown")
    expect(flame.get_by_role("button", name="Tasks.process")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(flame.get_by_role("button", name="Commits.flush")).to_be_focused()
    page.keyboard.press("Enter")
    expect(flame.get_by_role("button", name="Tasks.process")).to_have_count(0)
    expect(flame.get_by_role("button", name="Commits.flush")).to_be_focused()
    page.keyboard.press("Escape")
    expect(flame.get_by_role("button", name="Tasks.process")).to_be_visible()
    # The tabulator key reaches one box only.
    assert flame.locator(".flame-box[tabindex='0']").count() == 1


def test_a_search_marks_functions_and_counts_their_samples(server: PageServer, page: Page) -> None:
    taken(server, page)
    flame = page.locator(".flame")
    flame.get_by_role("searchbox", name="Find").fill("CURRENCIES")
    expect(flame).to_contain_text("Found in 59 % of the samples")
    expect(flame.locator(".flame-box.found")).to_have_count(1)
    flame.get_by_role("searchbox", name="Find").fill("")
    expect(flame.locator(".flame-box.not-found")).to_have_count(0)


def test_the_reason_for_another_sampler_and_no_samples_are_shown(server: PageServer, page: Page) -> None:
    server.side.flames = {"stream/1": Flame((), 0, 10.0, "penstock", "py-spy is not installed")}
    opened(page, server.url, "slow")
    take(page)
    flame = page.get_by_role("region", name="Flame graph")
    expect(flame).to_contain_text("by penstock")
    expect(flame).to_contain_text("Note: py-spy is not installed.")
    expect(flame).to_contain_text("There are no samples.")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_of_threads_functions_and_files_do_nothing(server: PageServer, page: Page, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    stack = (text, f"{text} ({text or '-'}:1)", text)
    taken(server, page, Flame(((stack, 5), (("stream-loop", *stack), 2)), 7, 1.0, text, text, {text: "program"}))
    page.locator(".flame").get_by_role("combobox", name="Thread").select_option(index=0)
    expect(page.locator(".flame-box")).to_have_count(8)
    page.locator(".flame-box").last.click()
    assert page.evaluate("[window.ran, Object.prototype.ran]") == [None, None]
    assert page.evaluate("document.querySelectorAll('body script, body img, iframe').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_as_many_and_as_deep_stacks_as_there_can_be(server: PageServer, page: Page) -> None:
    taken(server, page, deep())
    expect(page.locator(".flame")).to_contain_text("2,000 samples")
    assert page.locator(".flame-box").count() < 1_000, "boxes that are too narrow to be seen are not drawn"


def test_no_barrier_and_no_sideways_scrolling_on_a_telephone(server: PageServer, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    taken(server, page)
    page.locator(".flame").get_by_role("searchbox", name="Find").fill("currencies")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for theme in THEMES:
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        assert axe.findings(page) == []


def test_an_operator_whose_name_has_a_line_break_is_listed(server: PageServer, page: Page) -> None:
    measured = {(NODE, "busy-ratio", "two\nlines"): 0.5}
    server.side.current = with_task(server.side.current, "0_0", measured=measured)
    expect(opened(page, server.url, "slow").get_by_role("rowheader", name="two\\nlines")).to_be_visible()
