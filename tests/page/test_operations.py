"""Operations by buttons: scale, move a task, restart an actor. Each asks before, and shows a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.cluster.read_side import ActorCount, ScalingStatus
from tests.page.server import PageServer
from tests.page.views import opened
from tests.page.watch import Watch

COUNTS = (ActorCount(7, 1, 0.6, 5.0),)


@pytest.fixture
def operated(server: PageServer) -> Iterator[list[str]]:
    """The operations that the application was asked for."""
    server.side.operations.done.clear()
    yield server.side.operations.done
    server.side.operations.refused = None


def dialog(page: Page, button: str) -> Locator:
    page.get_by_role("button", name=button).click()
    return page.get_by_role("dialog")


def test_the_number_of_actors_is_set(server: PageServer, page: Page, operated: list[str]) -> None:
    opened(page, server.url, "tasks")
    scale = dialog(page, "Scale …")
    expect(scale.get_by_label("Stream actors")).to_have_value("2")
    scale.get_by_label("Stream actors").fill("0")
    expect(scale.get_by_role("button", name="Scale")).to_be_disabled()
    expect(scale).to_contain_text("at least 1")
    scale.get_by_label("Stream actors").fill("5")
    scale.get_by_role("button", name="Scale").click()
    expect(scale).to_have_count(0)
    assert operated == ["scale to 5"]


def test_the_number_that_the_load_needs_is_proposed(server: PageServer, page: Page, operated: list[str]) -> None:
    advice = ScalingStatus(wanted=2, advised=7, reason="", automatic=False, minimum=1, maximum=8, counts=COUNTS)
    server.side.current = replace(server.side.current, scaling=advice)
    opened(page, server.url, "tasks")
    scale = dialog(page, "Scale …")
    expect(scale).to_contain_text("has 2 stream actors now; the load that is measured needs 7.")
    scale.get_by_role("button", name="Scale").click()
    expect(scale).to_have_count(0)
    assert operated == ["scale to 7"]


def test_a_task_is_moved_to_another_actor(server: PageServer, page: Page, operated: list[str]) -> None:
    opened(page, server.url, "tasks", "0_2")
    move = dialog(page, "Move …")
    expect(move.get_by_label("To").get_by_role("option")).to_have_text(["stream/1"])
    move.get_by_role("button", name="Move").click()
    expect(move).to_have_count(0)
    assert operated == ["move 0_2 to stream/1"]


def test_escape_closes_a_dialog_and_not_the_panel_behind_it(server: PageServer, page: Page) -> None:
    opened(page, server.url, "tasks", "0_2")
    move = dialog(page, "Move …")
    expect(move).to_be_visible()
    page.keyboard.press("Escape")
    expect(move).to_have_count(0)
    expect(page.get_by_role("complementary")).to_be_visible()


def test_an_actor_is_restarted(server: PageServer, page: Page, operated: list[str]) -> None:
    opened(page, server.url, "tasks", "stream/1")
    restart = dialog(page, "Restart …")
    restart.get_by_role("button", name="Restart").click()
    expect(restart).to_have_count(0)
    assert operated == ["restart stream/1"]


def test_a_refusal_is_shown_and_the_dialog_remains(
    server: PageServer, page: Page, watch: Watch, operated: list[str]
) -> None:
    watch.expected = ["status of 409"]
    server.side.operations.refused = "a roll-out is under way: <b>wait</b> until it is done"
    opened(page, server.url, "tasks", "stream/1")
    restart = dialog(page, "Restart …")
    restart.get_by_role("button", name="Restart").click()
    expect(restart).to_contain_text("<b>wait</b> until it is done")
    server.side.operations.refused = None
    restart.get_by_role("button", name="Restart").click()
    expect(restart).to_have_count(0)
    assert operated == ["restart stream/1"]
