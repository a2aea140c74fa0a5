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
from tests.page.watch import Watch
from tests.waiting import eventually

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


_COLOURED = """([canvas, name]) => {
    const probe = document.body.appendChild(document.createElement("span"));
    probe.style.color = `var(${name})`;
    const [red, green, blue] = getComputedStyle(probe).color.match(/[0-9]+/g).map(Number);
    probe.remove();
    const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const columns = new Set();
    for (let at = 0; at < data.length; at += 4) {
        const far = Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue);
        if (data[at + 3] > 60 && far < 24) columns.add((at / 4) % width);
    }
    return [...columns];
}"""


def test_a_chart_has_a_line_of_all_figures_and_one_at_the_chosen_time(
    hour: PageServer, page: Page, watch: Watch
) -> None:
    watch.expected = ["Multiple readback operations"]
    view = opened(page, hour.url, "time")

    def columns(colour: str) -> list[int]:
        canvas = view.locator("figure", has_text="Records per second").locator("canvas").element_handle()
        found: list[int] = page.evaluate(_COLOURED, [canvas, colour])
        return found

    eventually(lambda: len(columns("--brand")) > 100, "the line is drawn", look_each_s=0.1)
    before = columns("--fault")
    page.get_by_label("Now").focus()
    page.keyboard.press("Home")
    eventually(lambda: columns("--fault") not in ([], before), f"the chosen time, not {before}", 10, 0.1)
