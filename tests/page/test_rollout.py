"""The view of a roll-out: its phase, and the version that each actor runs."""

from __future__ import annotations

from dataclasses import replace

from playwright.sync_api import Page, expect

from penstock.cluster.read_side import Rollout, RolloutPhase
from tests.page.applications import with_actor
from tests.page.server import PageServer
from tests.page.views import finding, opened, shown


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
