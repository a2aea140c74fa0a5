"""Each view looks as it did when a person last looked at it, in both themes and on a telephone."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from penstock.api.page.live_view import LiveView
from penstock.cluster.findings import Finding, Level, findings
from penstock.cluster.read_side import (
    TASK_STATES,
    ApplicationHistory,
    ApplicationStatus,
    EventKind,
    EventLevel,
    Flow,
    HistoryEvent,
    Sample,
    TaskState,
)
from penstock.cluster.record_side import Peek
from penstock.common.ids import TaskId
from tests.api.fake import FakeReadSide
from tests.page.applications import grown, lags, orders_topology, runs, status_of, with_actor, with_task
from tests.page.chromium import PATIENCE_MS
from tests.page.pictures import BASELINES, MOST_DIFFERING, difference, kept
from tests.page.server import PageServer, page_server
from tests.page.test_letters import letter
from tests.page.views import THEMES, VIEWS, finding, opened
from tests.page.watch import Watch

_STEP_MS, _STEPS = 5_000, 720
_TASKS = tuple(TaskId(sub, partition) for sub in (0, 1) for partition in range(4))
_FLOW = Flow(
    ("KSTREAM-SOURCE-0000000000", "not-empty", "price"), ("customers", "orders"), array("f", [4_000.0] * 3),
    array("B", [2, 4, 190]), array("f", [math.nan, 4_000.0]), array("f", [950.0, math.nan]),
)  # fmt: skip
NOON = "2026-01-02T12:00:00Z"
NOON_MS = 1_767_355_200_000
_LATE = Finding(
    Level.WARNING, "8 of 8 tasks are behind by up to 5 s: stream/0 is busy 97% in price", "behind", "topology", "price",
    NOON_MS - 4_000_000,
)  # fmt: skip
SIZES = {"desk": (1120, 700), "telephone": (360, 740)}
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""The topology gets its size in the first frame."""
THEN = "then"
"""The view of the last hour at its first step."""
LETTERS = "letters"
"""The view of records with its dead letters."""
PLACES = {THEN: ("time", ""), LETTERS: ("records", "letters:")}
"""The view and the subject of each look that has not a view's name."""
LAST_TO_COME = {
    "overview": "Sub-topology 1",
    "topology": "/s",
    "tasks": "1,000/s",
    "stores": "20,000",
    "time": "16.0 k",
    "then": "16.0 k",
    "records": "orders",
    "letters": "0@2",
    "slow": "with_price",
    "rollout": "No other version of the program was deployed.",
}
"""Text of each view that is there when all is there."""
LOOKS = [(theme, size) for theme in THEMES for size in SIZES if (theme, size) != ("dark", "telephone")]


def an_hour() -> ApplicationHistory:
    """The figures and the only event of the hour before noon: more and more records, and one lag."""
    samples = []
    for step in range(_STEPS):
        per_s, lag = 1_000.0 * (1 + step / _STEPS), 5_000.0 if _STEPS // 2 < step < _STEPS * 3 // 4 else 50.0
        totals = array("d", [8 * per_s, lag, lag / per_s, 1.0, 0.0, 0.0])
        rates, behind = array("f", [per_s] * len(_TASKS)), array("f", [lag / per_s] * len(_TASKS))
        shares, actors = array("B", [100] * len(_TASKS)), array("H", [0] * len(_TASKS))
        states = array("B", [TASK_STATES.index("running")] * len(_TASKS))
        at_ms = NOON_MS - (_STEPS - step) * _STEP_MS
        columns = rates, behind, shares, actors, states, _FLOW
        samples.append(Sample(at_ms, totals, _TASKS, ("stream/0",), *columns, _LATE))
    at_ms = NOON_MS - _STEPS * _STEP_MS // 2
    ended = HistoryEvent(
        at_ms, EventKind.ACTOR, EventLevel.ERROR, "stream/1 has ended", "stream/1", None, until_ms=at_ms
    )
    return ApplicationHistory(samples[0].at_ms, _STEP_MS, tuple(samples), (ended,))


class Steady(FakeReadSide):
    """An application that processes 1000 records a second in each task: one second passes between two questions."""

    def __init__(self) -> None:
        super().__init__()
        self.is_in_trouble = False
        runs(self, orders_topology(), status_of(orders_topology()))
        self.fakes["per-customer"].put("ada", 3, NOON_MS)
        self.remembered = an_hour()
        self.letters.topic, self.letters.failure = "orders-dlq", None
        self.letters.letters = [letter(2), letter(1, text="{}"), letter(0, None)]
        self.records.peeks = {"orders": Peek("orders", "read by KSTREAM-SOURCE-0000000000", (), (), False)}

    async def status(self) -> ApplicationStatus:
        # Only the server's thread changes ``current``: a change by the test's thread between the two would be lost.
        self.current = grown(self.current, 1_000)
        return _in_trouble(self.current) if self.is_in_trouble else self.current


def _in_trouble(status: ApplicationStatus) -> ApplicationStatus:
    """Returns ``status`` with findings of all levels, and tasks in several states."""
    status = with_task(status, "0_2", behind_s=41.0, lags=lags("orders", 2, 123_456))
    restoring = {"restore_remaining": 40_000, "restore_total": 60_000, "restore_rate": 9_000.0}
    status = with_task(status, "1_3", state=TaskState.RESTORING, **restoring)
    status = with_actor(status, "stream/1", error="OSError: [Errno 28] No space left on device")
    status = replace(status, paused=True)
    return replace(status, since={each.about: NOON_MS for each in findings(status)})


@pytest.fixture(scope="module")
def steady(browser: Browser) -> Iterator[PageServer]:
    document, seconds = LiveView.document, itertools.count(1.0)

    def at_a_steady_pace(view: LiveView, status: ApplicationStatus, now_s: float, at_ms: int) -> object:
        return document(view, status, next(seconds), NOON_MS)

    side = Steady()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LiveView, "document", at_a_steady_pace)
        # One page remains open: without any, rates begin again.
        with page_server(side) as server, browser.new_page() as first:
            first.set_default_timeout(PATIENCE_MS)
            expect(opened(first, server.url)).to_contain_text("8,000/s")
            side.is_in_trouble = True
            expect(finding(first, "No space left")).to_be_visible()
            yield server


@pytest.mark.parametrize(("theme", "size"), LOOKS)
@pytest.mark.parametrize("view", [*VIEWS, *PLACES])
def test_a_view_looks_as_it_did(
    browser: Browser,
    context: BrowserContext,
    steady: PageServer,
    watch: Watch,
    tmp_path: Path,
    view: str,
    theme: str,
    size: str,
) -> None:
    watch.own = steady.url
    width, height = SIZES[size]
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    page.clock.set_fixed_time(NOON)
    opened(page, steady.url, *PLACES.get(view, (view, "")))
    expect(page.get_by_test_id("findings")).to_contain_text("No space left on device")
    expect(page.locator("section[data-view]")).to_contain_text(LAST_TO_COME[view])
    if view == THEN:
        page.get_by_label("Now").focus()
        page.keyboard.press("Home")
        expect(page.locator(".then")).to_contain_text("95 %")
        page.get_by_role("heading", name="Topology and tasks at").evaluate("it => it.scrollIntoView()")
    page.evaluate(TWO_FRAMES)
    picture = page.screenshot(animations="disabled", caret="hide")
    name = f"{view}-{theme}-{size}"
    assert len(picture) > 5_000, "an empty page"
    before = kept(browser, name, picture)
    if before is not None:
        now = tmp_path / f"{name}.png"
        now.write_bytes(picture)
        share = difference(browser, before, picture)
        assert share <= MOST_DIFFERING, f"{share:.2%} of the pixels differ: look at {now}; WRITE_PICTURES=1 keeps it"


def test_a_picture_that_differs_is_noticed(browser: Browser) -> None:
    with browser.new_page() as page:
        page.set_content("<h1>One</h1>")
        one = page.screenshot()
        page.set_content("<h1>Two</h1>")
        two = page.screenshot()
    assert difference(browser, one, one) == 0
    assert 0 < difference(browser, one, two) < 0.1


def test_there_is_no_picture_of_a_view_that_is_gone() -> None:
    names = {f"{view}-{theme}-{size}" for view in (*VIEWS, *PLACES) for theme, size in LOOKS}
    assert {file.stem for file in BASELINES.glob("*.png")} == names
