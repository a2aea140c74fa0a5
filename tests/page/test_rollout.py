"""The view of a roll-out: its phase, and the version that each actor runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from penstock.cluster.program_view import ChangeView, DifferenceView
from penstock.cluster.read_side import Rollout, RolloutPhase
from tests.page import axe
from tests.page.applications import with_actor
from tests.page.server import PageServer
from tests.page.test_hostile import HOSTILE
from tests.page.views import THEMES, finding, opened, shown


def test_a_roll_out_is_followed_from_the_finding_to_its_end(server: PageServer, page: Page) -> None:
    before = server.side.current
    moving = replace(before, rollout=Rollout(2, 1, 2, RolloutPhase.MOVING))
    server.side.programs[2] = server.side.programs[1]
    server.side.current = with_actor(moving, "stream/1", generation=2)
    opened(page, server.url)
    finding(page, "Version 2 of the program is being rolled out: moving").get_by_role("link").click()
    view = shown(page, "rollout")
    expect(view).to_contain_text("moving")
    expect(view.get_by_role("rowheader")).to_have_text(["2", "1"])
    expect(view.get_by_role("row", name="2 1 4 stream/1")).to_be_visible()
    done = with_actor(server.side.current, "stream/0", generation=2)
    server.side.current = replace(done, rollout=Rollout(2, 2, 2, RolloutPhase.DONE))
    expect(view.get_by_role("rowheader")).to_have_text(["2"])
    expect(view).to_contain_text("done")


def test_a_version_that_was_rolled_back_shows_the_reason(server: PageServer, page: Page) -> None:
    reason = "actor stream/3 has failed: KeyError: 'price'"
    rolled_back = Rollout(1, 1, 2, RolloutPhase.ROLLED_BACK, reason)
    server.side.current = replace(server.side.current, rollout=rolled_back)
    expect(opened(page, server.url, "rollout")).to_contain_text(reason)


DIFFERENCE = DifferenceView(
    1,
    2,
    (
        ChangeView("store", "restored", False, "totals", "1_*", "2_*", note="it moves with 40,000 records: 0.3 s"),
        ChangeView("topic", "new", False, "totals-by-day", use="output"),
        ChangeView("tasks", "kept", False, "0_*", "0_*", "0_*"),
        ChangeView("store", "kept", False, "per-customer", "1_*", "1_*"),
    ),
    ("- Processor: price (stores: [])", "+ Processor: price (stores: [totals])", "+ Sink: KSTREAM-SINK-0000000012"),
    3,
)


@pytest.fixture
def deployed(server: PageServer) -> Iterator[PageServer]:
    """The server of an application whose second version is being rolled out."""
    server.side.current = replace(server.side.current, rollout=Rollout(2, 1, 2, RolloutPhase.MOVING))
    server.side.programs[2] = server.side.programs[1]
    server.side.difference = DIFFERENCE
    yield server
    server.side.difference = None


def test_what_a_roll_out_changes_is_shown_with_what_costs_most_first(deployed: PageServer, page: Page) -> None:
    view = opened(page, deployed.url, "rollout")
    expect(view.get_by_role("heading", name="From version 1 to version 2")).to_be_visible()
    expect(view).to_contain_text("1 group of tasks kept, 1 store restored, 1 store kept, 1 topic new.")
    rows = view.get_by_role("table", name="Tasks, stores and topics").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("totals")
    expect(rows.nth(1)).to_contain_text("it moves with 40,000 records: 0.3 s")
    expect(rows.nth(2)).to_contain_text("output topic")
    expect(view.locator(".difference .old")).to_have_text("- Processor: price (stores: [])")
    expect(view.locator(".difference .new")).to_have_count(2)
    for theme in THEMES:
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        assert axe.findings(page) == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_without_a_difference_the_reason_is_shown(server: PageServer, page: Page) -> None:
    view = opened(page, server.url, "rollout")
    expect(view).to_contain_text("No other version of the program was deployed.")
    server.side.programs[2] = server.side.programs[1]  # before the page learns of it and asks for it
    server.side.current = replace(server.side.current, rollout=Rollout(2, 2, 2, RolloutPhase.DONE))
    expect(view).to_contain_text("The coordinator was restarted after the last roll-out")
    server.side.difference = replace(DIFFERENCE, changes=(), lines=(), line_count=0)
    server.side.current = replace(server.side.current, rollout=Rollout(2, 1, 2, RolloutPhase.WATCHING))
    expect(view).to_contain_text("Nothing changes.")
    expect(view).to_contain_text("None: the topologies are the same.")
    server.side.difference = None


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_in_a_difference_do_nothing(deployed: PageServer, page: Page, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    change = ChangeView("store", "rebuilt", True, text, text, text, note=text)
    changes = (change, ChangeView("topic", "gone", False, text, use=text))
    deployed.side.difference = DifferenceView(1, 2, changes, (text, text), 2)
    view = opened(page, deployed.url, "rollout")
    expect(view).to_contain_text("1 store rebuilt, 1 topic gone.")
    expect(view.locator("tr", has=page.locator('[data-grave="true"]'))).to_have_count(1)
    assert page.evaluate("[window.ran, Object.prototype.ran]") == [None, None]
    assert page.evaluate("document.querySelectorAll('body script, body img, iframe').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
