"""The view of tasks and actors: rows that follow the application, panels, and operations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.actors.status import StandbyStatus
from penstock.cluster.read_side import TaskState
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import TaskId
from tests.page.applications import lags, runs, wide_status, wide_topology, with_actor, with_task
from tests.page.server import PageServer
from tests.page.views import finding, opened, shown
from tests.page.watch import Watch
from tests.waiting import eventually

_CHANGED_ROWS = """(table) => {
    window.changed = new Set();
    new MutationObserver((all) => {
        for (const { target } of all) {
            const row = (target.nodeType === Node.ELEMENT_NODE ? target : target.parentElement).closest("tr");
            window.changed.add(row === null ? "outside of the rows" : row.querySelector("th").textContent);
        }
    }).observe(table, { subtree: true, childList: true, characterData: true, attributes: true });
}"""


def table(page: Page, name: str = "Tasks") -> Locator:
    return page.get_by_role("table", name=name)


def row(page: Page, name: str, of: str = "Tasks") -> Locator:
    return table(page, of).get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))


def test_each_task_has_a_row_with_its_figures(server: PageServer, page: Page) -> None:
    server.side.current = with_task(server.side.current, "0_2", behind_s=41.0, lags=lags("orders", 2, 123_456))
    opened(page, server.url, "tasks")
    expect(table(page).get_by_role("rowheader")).to_have_text(["0_0", "0_1", "0_2", "0_3", "1_0", "1_1", "1_2", "1_3"])
    expect(row(page, "0_2")).to_contain_text("running")
    expect(row(page, "0_2").get_by_role("link", name="stream/0")).to_be_visible()
    expect(row(page, "0_2").get_by_role("cell").filter(has_text="41 s")).to_be_visible()
    expect(row(page, "0_2")).to_contain_text("123,456")


def test_a_phone_shows_the_figures_that_tell_trouble_without_scrolling(server: PageServer, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, server.url, "tasks")
    for title in ("Behind", "Lag", "Busy"):
        box = table(page).get_by_role("columnheader", name=title, exact=True).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390, title


def test_a_change_of_one_task_changes_its_row_and_no_other(server: PageServer, page: Page) -> None:
    opened(page, server.url, "tasks")
    # Rates are those of the last half minute until there are two figures to compute them from: 0, as nothing arrives.
    expect(table(page).get_by_role("cell", name="0/s", exact=True)).to_have_count(8)
    table(page).evaluate(_CHANGED_ROWS)
    server.side.current = with_task(server.side.current, "0_2", lags=lags("orders", 2, 123_456))
    expect(row(page, "0_2")).to_contain_text("123,456")
    server.side.current = with_task(server.side.current, "0_2", lags=lags("orders", 2, 654_321))
    expect(row(page, "0_2")).to_contain_text("654,321")
    assert page.evaluate("[...window.changed]") == ["0_2"]


def test_a_row_far_from_view_is_drawn_again_when_it_comes_near(server: PageServer, page: Page) -> None:
    topology = wide_topology()
    runs(server.side, topology, wide_status(topology, 0))
    opened(page, server.url, "tasks")
    expect(table(page).get_by_role("rowheader")).to_have_count(200)
    lag = 100_000

    def is_left_alone() -> bool:
        """Returns True if the far row does not follow a change. It does until the browser knows which rows are far."""
        nonlocal lag
        lag += 1_000
        changed = with_task(server.side.current, "19_9", lags=lags("stage-19", 9, lag))
        server.side.current = with_task(changed, "0_0", lags=lags("stage-0", 0, lag))
        expect(row(page, "0_0")).to_contain_text(f"{lag:,}")
        return f"{lag:,}" not in row(page, "19_9").inner_text()

    eventually(is_left_alone, "the row that is far from view does not follow")
    row(page, "19_9").scroll_into_view_if_needed()
    expect(row(page, "19_9")).to_contain_text(f"{lag:,}")


def test_tasks_come_and_go(server: PageServer, page: Page) -> None:
    opened(page, server.url, "tasks")
    before = server.side.current
    server.side.current = replace(before, unhosted={TaskId(0, 9): "it waits for a CPU"})
    expect(row(page, "0_9")).to_contain_text("it waits for a CPU")
    server.side.current = before
    expect(row(page, "0_9")).to_have_count(0)


def test_a_restore_shows_how_far_it_is_and_the_time_left(server: PageServer, page: Page) -> None:
    restoring = {"restore_remaining": 40_000, "restore_total": 60_000, "restore_rate": 10_000.0}
    server.side.current = with_task(server.side.current, "1_3", state=TaskState.RESTORING, **restoring)
    opened(page, server.url, "tasks")
    expect(row(page, "1_3")).to_contain_text("restoring")
    expect(row(page, "1_3").get_by_role("progressbar")).to_have_attribute("value", "0.6")
    expect(row(page, "1_3")).to_contain_text("60 % · 10.0 k/s · 4.0 s left")


def test_a_standby_shows_its_actor_and_its_lag(server: PageServer, page: Page) -> None:
    standbys = (StandbyStatus(TaskId(1, 0), lag=1_234),)
    server.side.current = with_actor(server.side.current, "stream/1", standbys=standbys)
    opened(page, server.url, "tasks")
    expect(row(page, "1_0")).to_contain_text("stream/1 lacks 1,234")


def test_tasks_are_found_by_text_and_sorted_by_trouble(server: PageServer, page: Page) -> None:
    server.side.current = with_task(server.side.current, "1_1", behind_s=41.0, lags=lags("orders", 2, 7))
    opened(page, server.url, "tasks")
    page.get_by_label("Sort by").select_option("behind")
    expect(table(page).get_by_role("rowheader").first).to_have_text("1_1")
    page.get_by_label("Show").fill("stream/1")
    expect(table(page).get_by_role("rowheader")).to_have_count(4)
    page.get_by_label("Show").fill("nothing of this name")
    expect(table(page)).to_contain_text("No task matches 'nothing of this name'.")


def test_a_task_opens_in_a_panel_that_escape_closes(server: PageServer, page: Page) -> None:
    opened(page, server.url, "tasks")
    row(page, "0_2").get_by_role("link", name="0_2").click()
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", name="Task 0_2")).to_be_focused()
    expect(panel).to_contain_text("Partition 2 of sub-topology 0")
    expect(panel).to_contain_text("100,000")
    panel.get_by_role("link", name="stream/0").click()
    expect(panel.get_by_role("heading", name="stream/0")).to_be_focused()
    expect(panel).to_contain_text("4711")
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    page.go_back()
    expect(panel.get_by_role("heading", name="stream/0")).to_be_visible()


def test_a_finding_leads_to_its_task_by_one_click(server: PageServer, page: Page) -> None:
    restoring = {"restore_remaining": 40_000, "restore_total": 60_000}
    server.side.current = with_task(server.side.current, "1_3", state=TaskState.RESTORING, **restoring)
    opened(page, server.url)
    finding(page, "1 of 8 tasks restores").get_by_role("link").click()
    shown(page, "tasks")
    expect(page.get_by_role("complementary").get_by_role("heading", name="Task 1_3")).to_be_visible()


def test_a_finding_leads_to_its_actor_by_one_click(server: PageServer, page: Page) -> None:
    server.side.current = with_actor(server.side.current, "stream/1", error="OSError: no space left")
    opened(page, server.url)
    finding(page, "Actor stream/1 has failed").get_by_role("link").click()
    shown(page, "tasks")
    expect(page.get_by_role("complementary").get_by_role("heading", name="stream/1")).to_be_visible()


def test_an_address_of_a_task_that_is_gone_says_so(server: PageServer, page: Page) -> None:
    opened(page, server.url, "tasks", "7_7")
    expect(page.get_by_text("There is no task and no actor 7_7 now.")).to_be_visible()
    expect(row(page, "0_0")).to_be_visible()


def test_the_application_is_paused_and_resumed_by_buttons_that_ask_before(server: PageServer, page: Page) -> None:
    opened(page, server.url, "tasks")
    page.get_by_role("button", name="Pause …").click()
    dialog = page.get_by_role("dialog", name="Pause the application?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    assert not server.side.current.paused
    page.get_by_role("button", name="Pause …").click()
    dialog.get_by_role("button", name="Pause").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("header .state")).to_have_text("paused")
    assert server.side.current.paused
    page.get_by_role("button", name="Resume …").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.locator("header .state")).to_have_text("running")
    assert not server.side.current.paused


def test_an_order_that_is_refused_shows_the_reason_and_can_be_given_again(
    server: PageServer, page: Page, watch: Watch
) -> None:
    watch.expected = ["status of 409", "status of 503"]
    opened(page, server.url, "tasks")
    page.get_by_role("button", name="Pause …").click()
    dialog = page.get_by_role("dialog")
    refusing = _Refusing(server)
    with refusing:
        dialog.get_by_role("button", name="Pause").click()
        expect(dialog).to_contain_text("it is stopping")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.locator("header .state")).to_have_text("paused")


class _Refusing:
    """Has the application refuse a pause, and answer all else."""

    def __init__(self, server: PageServer) -> None:
        self._operations = server.side.operations

    def __enter__(self) -> None:
        async def refused(paused: bool) -> None:
            raise ApplicationStateError("application 'word-count' is in state PENDING_SHUTDOWN: it is stopping")

        self._operations.pause = refused  # type: ignore[method-assign, assignment]

    def __exit__(self, *error: object) -> None:
        del self._operations.pause


@pytest.mark.parametrize("key", ["Enter", "Escape"])
def test_a_dialog_is_used_by_keyboard(server: PageServer, page: Page, key: str) -> None:
    opened(page, server.url, "tasks")
    page.get_by_role("button", name="Pause …").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    if key == "Enter":
        dialog.get_by_role("button", name="Pause").focus()
    page.keyboard.press(key)
    expect(dialog).to_have_count(0)
    expect(page.locator("header .state")).to_have_text("paused" if key == "Enter" else "running")
