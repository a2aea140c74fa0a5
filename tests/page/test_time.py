"""The view of the last hour: charts, the time that one chooses, and events."""

from __future__ import annotations

from array import array

import pytest
from playwright.sync_api import Page, expect

from penstock.cluster.read_side import (
    ApplicationHistory,
    EventKind,
    EventLevel,
    HistoryEvent,
    Sample,
)
from penstock.common.ids import TaskId
from tests.page.server import PageServer
from tests.page.views import opened

STEP_MS = 5_000
FIRST = 1_767_225_600_000
TASKS = (TaskId(0, 0), TaskId(0, 1))


def _sample(step: int) -> Sample:
    """The application processes 100 records/s in its first step, 200 in its second …"""
    rates, behind = array("f", [1.0, 2.0]), array("f", [41.0, 0.5])
    totals = array("d", [100.0 * (step + 1), 0.0, 41.0, 1.0, 0.0, 0.0])
    return Sample(
        FIRST + step * STEP_MS, totals, TASKS, ("stream/1",), rates, behind, array("B", [200, 3]), array("H", [0, 0])
    )


@pytest.fixture
def hour(server: PageServer) -> PageServer:
    what = "stream/1 has ended <b>"
    event = HistoryEvent(FIRST, EventKind.ACTOR, EventLevel.ERROR, what, "stream/1", None, until_ms=FIRST)
    samples = tuple(_sample(step) for step in range(20))
    server.side.remembered = ApplicationHistory(FIRST, STEP_MS, samples, (event,))
    return server


def test_without_figures_the_view_says_so(server: PageServer, page: Page) -> None:
    view = opened(page, server.url, "time")
    expect(view).to_contain_text("The coordinator has no figures yet.")
    expect(view).to_contain_text("Nothing has happened.")


def test_charts_show_the_figures_of_now_and_of_a_chosen_time(hour: PageServer, page: Page) -> None:
    view = opened(page, hour.url, "time")
    throughput = view.locator("figure", has_text="Records per second")
    expect(throughput).to_contain_text("2,000")
    page.get_by_label("Now").focus()
    page.keyboard.press("Home")
    expect(throughput).to_contain_text("100")
    page.keyboard.press("ArrowRight")
    expect(throughput).to_contain_text("200")
    page.get_by_role("button", name="Back to now").click()
    expect(throughput).to_contain_text("2,000")


def test_the_tasks_are_shown_as_they_were(hour: PageServer, page: Page) -> None:
    view = opened(page, hour.url, "time")
    page.get_by_label("Now").focus()
    page.keyboard.press("Home")
    expect(view.locator(".then li").first).to_contain_text("Task 0_0: 41 s behind, 1.00/s, busy 100 %, stream/1")
    expect(view.locator(".then li").first).to_have_class("cell heat-3")


def test_events_are_listed_as_text_with_the_way_to_their_actor(hour: PageServer, page: Page) -> None:
    view = opened(page, hour.url, "time")
    row = view.get_by_role("row").filter(has_text="has ended <b>")
    expect(row).to_contain_text("error")
    expect(row.get_by_role("link", name="stream/1")).to_have_attribute("href", "#/tasks/stream%2F1")
