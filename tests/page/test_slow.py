"""The view of why it is slow: operators by the share of time that they take."""

from __future__ import annotations

from dataclasses import replace

from playwright.sync_api import Page, expect

from penstock.cluster.read_side import ApplicationStatus
from penstock.common.metric_names import NODE, Measured
from tests.page.server import PageServer
from tests.page.views import opened


def with_shares(status: ApplicationStatus, share: float | None) -> ApplicationStatus:
    """Returns ``status`` with this busy share of each operator; None: it is not measured."""

    def with_task_shares(measured: Measured) -> Measured:
        known = {key: value for key, value in measured.items() if key[:2] != (NODE, "busy-ratio")}
        return known if share is None else known | {(NODE, "busy-ratio", "price"): share}

    return replace(
        status,
        actors=tuple(
            replace(
                actor,
                tasks=tuple(replace(task, measured=with_task_shares(task.measured)) for task in actor.tasks),
            )
            for actor in status.actors
        ),
    )


def test_shares_that_are_not_known_are_not_taken_for_none(server: PageServer, page: Page) -> None:
    server.side.current = with_shares(server.side.current, None)
    view = opened(page, server.url, "slow")
    expect(view).to_contain_text("The shares of operators are not known yet")
    server.side.current = with_shares(server.side.current, 0.0)
    expect(view).to_contain_text("No operator takes a measurable share of time")
    server.side.current = with_shares(server.side.current, 0.5)
    expect(view.get_by_role("table", name="The busiest operators").get_by_role("rowheader")).to_have_text("price")
