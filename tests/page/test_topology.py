"""The view of the topology: the picture with its figures, panels of its parts, and the strip of tasks."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.cluster.health import Health
from penstock.cluster.missing_brokers import BrokerLosses, MissingBroker
from penstock.common.ids import TopicPartition
from penstock.common.metric_names import NODE
from tests.page.applications import lags, orders_topology, status_of, with_price, with_task
from tests.page.server import PageServer
from tests.page.views import finding, opened, shown

COUNT = "KSTREAM-AGGREGATE-0000000004"


def part(page: Page, name: str) -> Locator:
    """An operator, a store or a topic of the picture."""
    return page.locator("svg.picture a.box").filter(has=page.locator("text.name", has_text=name)).first


def panel(page: Page, name: str) -> Locator:
    """The panel of the part that is looked at."""
    expect(page.get_by_role("complementary").get_by_role("heading", name=name)).to_be_focused()
    return page.get_by_role("complementary")


def busy(server: PageServer, share: float) -> None:
    """Has the operator ``price`` take this share of an actor's time in one task."""
    measured = server.side.current.actors[0].tasks[0].measured | {(NODE, "busy-ratio", "price"): share}
    server.side.current = with_task(server.side.current, "0_0", measured=measured)


def test_the_picture_has_all_operators_stores_and_topics(server: PageServer, page: Page) -> None:
    opened(page, server.url, "topology")
    for name in ("orders", "not-empty", "price", "by-customer", "per-customer", "customers"):
        expect(part(page, name)).to_be_visible()
    expect(page.locator("svg.picture .lane")).to_have_count(2)
    expect(page.locator("svg.picture .lane-note").first).to_contain_text("4 tasks")


def test_notes_of_lanes_are_beside_the_lines_that_leave_them(server: PageServer, page: Page) -> None:
    server.side.current = with_task(server.side.current, "0_0", behind_s=41.0)
    opened(page, server.url, "topology")
    expect(page.locator("svg.picture .lane-note").first).to_have_text("4 tasksup to 41 s behind")
    crossed = page.locator("svg.picture").evaluate("""(svg) => {
        const along = [...Array(200).keys()].map((step) => step / 199);
        const at = [...svg.querySelectorAll("path.link")].flatMap(
            (line) => along.map((share) => line.getPointAtLength(share * line.getTotalLength())));
        const boxes = [...svg.querySelectorAll(".lane-note text")].map((it) => it.getBBox());
        return boxes.filter((box) => at.some(({ x, y }) =>
            box.x - 3 < x && x < box.x + box.width + 3 && box.y < y && y < box.y + box.height)).length;
    }""")
    assert crossed == 0


def test_records_per_second_are_at_the_lines_and_change(server: PageServer, page: Page) -> None:
    opened(page, server.url, "topology")
    expect(page.locator("svg.picture .rate", has_text="/s").first).to_be_visible()
    tasks = [task for actor in server.side.current.actors for task in actor.tasks]
    for task in tasks:
        if (NODE, "records-rate", "price") in task.measured:
            fields = task.measured | {(NODE, "records-rate", "price"): 1_500.0}
            server.side.current = with_task(server.side.current, str(task.task_id), measured=fields)
    expect(page.locator("svg.picture .rate", has_text="6,000/s")).to_be_visible()


def test_an_operator_is_coloured_by_its_busy_share(server: PageServer, page: Page) -> None:
    busy(server, 0.01)
    opened(page, server.url, "topology")
    expect(part(page, "price")).to_be_visible()
    cool = part(page, "price").get_attribute("class")
    busy(server, 0.97)
    expect(part(page, "price")).to_contain_text("99 %")  # another task of the actor has the rest
    expect(part(page, "price")).to_have_accessible_name(re.compile("price.*99 % busy"))
    assert part(page, "price").get_attribute("class") != cool


def test_an_operator_shows_its_function_with_file_and_line(server: PageServer, page: Page) -> None:
    opened(page, server.url, "topology")
    part(page, "price").click()
    shown_panel = panel(page, "price")
    line = inspect.getsourcelines(with_price)[1]
    expect(shown_panel).to_contain_text("with_price")
    expect(shown_panel).to_contain_text(f"applications.py:{line}")


def test_an_operator_leads_to_its_store_and_the_store_back(server: PageServer, page: Page) -> None:
    opened(page, server.url, "topology")
    page.get_by_role("button", name="Fit").click()
    part(page, COUNT).click()
    panel(page, COUNT).get_by_role("link", name="per-customer", exact=True).click()
    store = panel(page, "per-customer")
    expect(store).to_contain_text("20,000")
    expect(store).to_contain_text("4.00 MB")
    store.get_by_role("link", name=COUNT).click()
    panel(page, COUNT)


def test_a_topic_shows_its_rates_and_its_operators(server: PageServer, page: Page) -> None:
    opened(page, server.url, "topology")
    part(page, "orders").click()
    expect(panel(page, "orders")).to_contain_text("Read from it")


def test_an_address_names_a_part_and_one_of_a_part_that_is_gone_says_so(server: PageServer, page: Page) -> None:
    opened(page, server.url, "topology", "price")
    panel(page, "price")
    opened(page, server.url, "topology", "no-such-part")
    expect(page.get_by_text("The topology has no part no-such-part.")).to_be_visible()


def test_a_busy_operator_is_found_from_the_finding_by_one_click(server: PageServer, page: Page) -> None:
    server.side.current = status_of(orders_topology(), busy=0.97)
    server.side.current = with_task(server.side.current, "0_0", behind_s=41.0, lags=lags("orders", 0, 9_999))
    busy(server, 0.95)
    opened(page, server.url)
    found = finding(page, "1 of 8 tasks is behind by 41 s")
    expect(found).to_contain_text("price")
    found.get_by_role("link").click()
    shown(page, "topology")
    panel(page, "price")


def test_the_keyboard_walks_from_part_to_part_and_opens_one(server: PageServer, page: Page) -> None:
    opened(page, server.url, "topology")
    part(page, "orders").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("svg.picture a.box:focus")).to_have_count(1)
    expect(part(page, "orders")).not_to_be_focused()
    assert page.evaluate("[...document.querySelectorAll('svg.picture a')].filter((a) => a.tabIndex === 0).length") == 1
    part(page, "price").focus()
    page.keyboard.press("Enter")
    panel(page, "price")
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)


@pytest.mark.parametrize("way", ["buttons", "keys", "wheel"])
def test_the_picture_is_enlarged_and_fits_again(server: PageServer, page: Page, way: str) -> None:
    opened(page, server.url, "topology")
    expect(part(page, "price")).to_be_visible()
    moved = page.locator("svg.picture > g")
    expect(moved).to_have_attribute("transform", re.compile(r"scale\("))
    expect(moved).to_have_attribute("transform", re.compile(r"scale\(1\.0000\)"))
    page.get_by_role("button", name="Fit").click()
    expect(moved).not_to_have_attribute("transform", re.compile(r"scale\(1\.0000\)"))
    whole = moved.get_attribute("transform")
    assert whole is not None
    if way == "buttons":
        page.get_by_role("button", name="Larger").click()
    elif way == "keys":
        page.locator("svg.picture").focus()
        page.keyboard.press("+")
    else:
        page.locator("svg.picture").hover()
        page.mouse.wheel(0, -200)
    expect(moved).not_to_have_attribute("transform", whole)
    page.get_by_role("button", name="Fit").click()
    expect(moved).to_have_attribute("transform", whole)


def test_the_strip_has_a_cell_for_each_task_that_shows_how_far_it_is_behind(server: PageServer, page: Page) -> None:
    opened(page, server.url, "topology")
    cells = page.locator(".strip .cell")
    expect(cells).to_have_count(8)
    late = page.locator("[data-task='0_2']")
    cool = late.get_attribute("class")
    server.side.current = with_task(server.side.current, "0_2", behind_s=200.0)
    expect(late).to_have_attribute("title", re.compile("Task 0_2: 3 min 20 s behind, running, .*/s, busy 10 %"))
    assert late.get_attribute("class") != cool
    cells.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(late).to_be_focused()
    page.keyboard.press("Enter")
    shown(page, "tasks")
    expect(page.get_by_role("complementary").get_by_role("heading", name="Task 0_2")).to_be_visible()


def test_a_topic_without_leaders_and_the_tasks_that_wait_for_it_are_marked(server: PageServer, page: Page) -> None:
    opened(page, server.url, "topology")
    topic, cell = part(page, "orders"), page.locator("[data-task='0_2']")
    edge = topic.locator(".shape").evaluate("(shape) => getComputedStyle(shape).stroke")
    expect(cell.locator(".sign")).to_have_text("")
    away = MissingBroker(2, "two:9092", 1_000, (TopicPartition("orders", 2),), ())
    losses = BrokerLosses((away,), (("orders", 4),))
    server.side.current = replace(server.side.current, health=Health(brokers=losses))
    expect(topic.locator(".note")).to_have_text("no leader: 1")
    expect(topic.locator("title")).to_have_text(re.compile(", 1 partition without a leader$"))
    assert topic.locator(".shape").evaluate("(shape) => getComputedStyle(shape).stroke") != edge
    expect(cell.locator(".sign")).to_have_text("w")
    expect(cell).to_have_attribute("title", re.compile("waits: partition 2 of topic orders has no leader$"))
    expect(page.locator("[data-task='0_1'] .sign")).to_have_text("")
