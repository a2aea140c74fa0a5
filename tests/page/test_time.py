"""The view of the last hour: charts, the time that one chooses, and events."""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.cluster.findings import Finding, Level
from penstock.cluster.read_side import (
    BUSY_UNKNOWN,
    TASK_STATES,
    ApplicationHistory,
    EventKind,
    EventLevel,
    Flow,
    HistoryEvent,
    Sample,
)
from penstock.common.ids import TaskId
from tests.page.server import PageServer
from tests.page.test_topology import panel, part
from tests.page.views import opened
from tests.page.watch import Watch
from tests.waiting import eventually

STEP_MS = 5_000
FIRST = 1_767_225_600_000
TASKS = (TaskId(0, 0), TaskId(0, 1))


def _sample(step: int) -> Sample:
    """The application processes 100 records/s in its first step, 200 in its second … At first a task restores, and
    ``price`` is busy."""
    rates, behind = array("f", [1.0, 2.0]), array("f", [41.0, 0.5])
    totals = array("d", [100.0 * (step + 1), 0.0, 41.0, 1.0, 0.0, 0.0])
    states = array("B", [TASK_STATES.index("running" if step else "restoring"), TASK_STATES.index("running")])
    flow = Flow(
        ("KSTREAM-SINK-0000000009", "price"), ("customers", "orders"), array("f", [800.0, 3_000.0 + step]),
        array("B", [BUSY_UNKNOWN, 20 if step else 194]),
        array("f", [math.nan, 7_000.0]), array("f", [800.0, math.nan]),
    )  # fmt: skip
    late = Finding(Level.WARNING, "1 of 2 tasks is behind <b>", "behind", "tasks", "0_0", FIRST - 3_600_000)
    columns = rates, behind, array("B", [200, 3]), array("H", [0, 0]), states
    return Sample(FIRST + step * STEP_MS, totals, TASKS, ("stream/1",), *columns, flow, None if step else late)


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


def then(page: Page) -> Locator:
    """Goes to the first step, and returns the part that shows it."""
    page.get_by_label("Now").focus()
    page.keyboard.press("Home")
    found = page.locator(".then[data-then]")
    expect(found.get_by_role("heading", level=3)).to_have_text(re.compile("^Topology and tasks at .*[0-9]{2}:[0-9]{2}"))
    return found


def test_the_tasks_are_shown_as_they_were(hour: PageServer, page: Page) -> None:
    opened(page, hour.url, "time")
    first = then(page).locator(".strip .cell").first
    what = "Task 0_0: 41 s behind, restoring, 1.00/s, busy 100 %, stream/1"
    expect(first).to_have_attribute("aria-label", what)
    expect(first).to_have_class(re.compile("heat-3"))
    expect(first).to_have_text("r")


def test_the_sentence_of_then_is_shown_with_the_time_since_which_it_held(hour: PageServer, page: Page) -> None:
    opened(page, hour.url, "time")
    finding = then(page).locator(".finding")
    expect(finding).to_contain_text("1 of 2 tasks is behind <b>")
    expect(finding.locator(".since")).to_contain_text(re.compile("since .*, for 60 min"))
    expect(finding.locator("time")).to_have_attribute("title", re.compile(r"^20\d\d-\d\d-\d\dT.*Z$"))
    page.get_by_role("button", name="Back to now").click()
    expect(page.locator(".then .finding")).to_have_count(0)


def test_the_topology_is_shown_as_it_was_and_live_again(hour: PageServer, page: Page) -> None:
    opened(page, hour.url, "time")
    now = page.locator(".then:not([data-then])")
    expect(part(page, "price")).not_to_contain_text("97 %")
    expect(now.get_by_role("heading", level=3)).to_have_text("Topology and tasks now")
    shown_then = then(page)
    expect(part(page, "price")).to_contain_text("97 %")
    expect(part(page, "price")).to_have_class(re.compile("heat-4"))
    for rate in ("3,000/s", "800/s"):
        expect(shown_then.locator("svg.picture .rate", has_text=rate).first).to_be_visible()
    expect(shown_then.locator(".lane-note").first).to_have_text("2 tasksup to 41 s behind")
    page.get_by_role("button", name="Back to now").click()
    expect(part(page, "price")).not_to_contain_text("97 %")


def test_a_part_of_the_picture_of_then_opens_its_figures_of_then(hour: PageServer, page: Page) -> None:
    opened(page, hour.url, "time")
    then(page)
    part(page, "price").click()
    facts = panel(page, "price")
    expect(facts).to_contain_text("97 %")
    expect(facts).to_contain_text("3,000/s")
    expect(facts).to_contain_text("with_price")
    assert page.url.endswith("#/time/node%3Aprice")
    part(page, "orders").click()
    expect(panel(page, "orders")).to_contain_text("7,000/s")
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)
    expect(page.locator(".then[data-then]")).to_be_visible()


def test_operators_of_another_version_are_mentioned(hour: PageServer, page: Page) -> None:
    old, *others = hour.side.remembered.samples
    flow = replace(old.flow, operators=("KSTREAM-SINK-0000000009", "price-of-old"))
    hour.side.remembered = replace(hour.side.remembered, samples=(replace(old, flow=flow), *others))
    opened(page, hour.url, "time")
    expect(then(page)).to_contain_text("Another version of the program ran then.")


def test_only_what_is_new_is_asked_for(hour: PageServer, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/history?" in request.url else None)
    page.clock.install()
    view = opened(page, hour.url, "time")
    throughput = view.locator("figure", has_text="Records per second")
    expect(throughput).to_contain_text("2,000")
    hour.side.remembered = replace(hour.side.remembered, samples=(*hour.side.remembered.samples, _sample(20)))
    page.clock.fast_forward(6_000)
    expect(throughput).to_contain_text("2,100")
    assert "from_ms=0&" in asked[0]
    assert f"from_ms={FIRST + 20 * STEP_MS - 60_000}&" in asked[1]
    page.get_by_label("Now").focus()
    page.keyboard.press("Home")
    expect(throughput).to_contain_text(": 100")


def test_events_are_listed_as_text_with_the_way_to_their_actor(hour: PageServer, page: Page) -> None:
    view = opened(page, hour.url, "time")
    row = view.get_by_role("row").filter(has_text="has ended <b>")
    expect(row).to_contain_text("error")
    expect(row.get_by_role("link", name="stream/1")).to_have_attribute("href", "#/tasks/stream%2F1")


def test_an_event_of_what_has_no_panel_has_no_link(hour: PageServer, page: Page) -> None:
    warning, error = EventLevel.WARNING, EventLevel.ERROR
    hour.side.remembered = ApplicationHistory(FIRST, STEP_MS, (), (
        HistoryEvent(FIRST, EventKind.LOG, warning, "the broker is slow", "coordinator", None, until_ms=FIRST),
        HistoryEvent(FIRST, EventKind.ACTOR, error, "it has ended", "stream/9", TaskId(0, 9), until_ms=FIRST),
    ))  # fmt: skip
    view = opened(page, hour.url, "time")
    expect(view.get_by_role("row").filter(has_text="the broker is slow")).to_contain_text("coordinator")
    expect(view.get_by_role("row").filter(has_text="it has ended")).to_contain_text("0_9 on stream/9")
    expect(view.get_by_role("table").get_by_role("link")).to_have_count(0)


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
    eventually(lambda: columns("--fault") not in ([], before), f"the chosen time, not {before}", look_each_s=0.1)
