"""The page in a browser, and its cost to an application: ``python -m benchmarks.page``, ``make bench-page``.

In the browser, over a read side in memory with 200 tasks and 100 operators: the first paint, the work of a change,
frames per second while figures change, and the JavaScript heap after many changes. Beside a real application: see
``page_cost.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import pytest
import typer
from playwright.sync_api import Browser, CDPSession, Page
from rich.console import Console

from benchmarks import page_cost
from benchmarks.data import KEYS, payments_of_users
from benchmarks.page_work import traced
from benchmarks.report import Grid, Spread, exit_if_wrong, surroundings, to_markdown, to_terminal, write_section
from benchmarks.rig import rig
from penstock.api.page import live_feed
from tests.page.applications import Changing
from tests.page.chromium import chromium
from tests.page.server import PageServer, page_server
from tests.page.test_pictures import an_hour
from tests.page.views import VIEWS, opened

PAGE = Path("docs/BENCHMARKS.md")
HEADING = "## The page"
_HURRIED_S = 0.05
"""Seconds between two changes when time runs faster: 20 of the usual seconds pass in one."""
_PACES = {"1/s": 1.0, "20/s": _HURRIED_S}
_WARM_S, _FRAMES_S = 2.0, 10.0
_WORK_S, _WORK_TIMES = 6.0, 3
_WIDTH, _HEIGHT = 1920, 1080
_QUARTERS = 4
_PAINTS = 7
_FRAMES = """(seconds) => new Promise((done) => {
    const moments = [];
    const frame = (now) => {
        moments.push(now);
        if (now - moments[0] < 1000 * seconds) requestAnimationFrame(frame); else done(moments);
    };
    requestAnimationFrame(frame);
})"""
_PAINT = "performance.getEntriesByType('paint').find((each) => each.name === 'first-contentful-paint').startTime"
_LEGEND = """\
Written by `make bench-page`. All tables but the last: Chromium without a window over a read side in memory, with 200
tasks and 100 operators all of whose figures change in each event; browser and server share the processor. First
paint: from the start of the navigation to the first contentful paint, each time in a fresh profile. Frames:
`requestAnimationFrame` for 10 s; the browser draws at most 60 a second. Work: CPU time of the page's main thread in a
window of 1920 x 1080 pixels, for one change each second; a frame has 16 ms. Heap: JavaScript objects after a garbage
collection, while 20 changes come a second.

The last table: the workload `count` at full speed in a real application with one stream actor. Pages are open in
every other second; "throughput lost" compares these seconds with those before and after. The pages are clients
without a browser, in a process of their own: a browser on the same machine would take CPU that the application does
not pay for elsewhere.
"""


@contextmanager
def _pace(seconds: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live_feed, "ASK_EVERY_S", seconds)
        yield


def paints(browser: Browser, server: PageServer) -> list[float]:
    """Returns the moments of the first paint in fresh profiles, in ms."""
    found = []
    for _ in range(_PAINTS):
        with browser.new_context() as context:
            page = context.new_page()
            opened(page, server.url)
            found.append(float(page.evaluate(_PAINT)))
    return found


def frames(page: Page, seconds: float) -> tuple[float, float]:
    """Returns the frames per second of ``page``, and the longest time between two of them, in ms."""
    moments: list[float] = page.evaluate(_FRAMES, seconds)
    between = [after - before for before, after in pairwise(moments)]
    return 1000 * len(between) / sum(between), max(between)


def heap_mb(devtools: CDPSession) -> float:
    """Returns the size of all living JavaScript objects, in MB."""
    devtools.send("HeapProfiler.collectGarbage")
    used: float = devtools.send("Runtime.getHeapUsage")["usedSize"]
    return used / 1e6


def heaps(page: Page, side: Changing, changes: int) -> list[str]:
    """Returns the heap at the beginning, and after each further quarter of so many changes, in MB."""
    devtools = page.context.new_cdp_session(page)
    found, first = [], side.step
    for quarter in range(_QUARTERS + 1):
        while side.step - first < quarter * changes / _QUARTERS:
            page.wait_for_timeout(200)
        found.append(f"{heap_mb(devtools):.2f}")
    return found


def works(browser: Browser, url: str, side: Changing) -> Grid:
    """Measures the work of one change in each view, in a large window, since what is not in view costs less."""
    rows = []
    for view in VIEWS:
        totals, longest = [], []
        for _ in range(_WORK_TIMES):
            with browser.new_context(viewport={"width": _WIDTH, "height": _HEIGHT}) as context:
                page = context.new_page()
                opened(page, url, view)
                frames(page, _WARM_S)
                first = side.step
                work = traced(page, _WORK_S)
                totals.append(work.total_ms / (side.step - first))
                longest.append(work.longest_ms)
        rows.append([view, Spread.of(totals).text(".1f"), Spread.of(longest).text(".1f")])
    return ("view", "work for a change, ms", "longest task, ms (goal: < 16)"), rows


def in_browser(changes: int) -> list[tuple[str, Grid]]:
    """Measures all in the browser. Returns tables with their titles."""
    side = Changing()
    side.remembered = an_hour()
    of_frames, of_heaps = [], []
    with chromium() as browser, page_server(side) as server:
        of_works = works(browser, server.url, side)
        painted = Spread.of(paints(browser, server)).text(",.0f")
        for view in VIEWS:
            for pace, seconds in _PACES.items():
                with _pace(seconds), browser.new_context() as context:
                    page = context.new_page()
                    opened(page, server.url, view)
                    frames(page, _WARM_S)
                    per_s, longest = frames(page, _FRAMES_S)
                of_frames.append([view, pace, f"{per_s:.1f}", f"{longest:.0f}"])
            with _pace(_HURRIED_S), browser.new_context() as context:
                page = context.new_page()
                opened(page, server.url, view)
                of_heaps.append([view, *heaps(page, side, changes)])
    after = [f"after {changes * quarter // _QUARTERS:,} changes, MB" for quarter in range(1, _QUARTERS + 1)]
    return [
        ("First paint", (("first paint, ms", "goal"), [[painted, "< 300"]])),
        ("Frames", (("view", "changes", "frames/s (goal: 60)", "longest frame, ms"), of_frames)),
        ("Work", of_works),
        ("Heap", (("view", "heap at first, MB", *after), of_heaps)),
    ]


def main(
    changes: Annotated[int, typer.Option(min=4, help="Changes for the heap; 3,600 are those of an hour.")] = 3_600,
    records: Annotated[int, typer.Option(min=1000, help="Records of the real application.")] = 8_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of the real application for each number of pages.")] = 5,
    application: Annotated[bool, typer.Option(help="Measure the cost to a real application, too.")] = True,
    markdown: Annotated[Path | None, typer.Option(help="Page that gets a section with the tables.")] = PAGE,
) -> None:
    """Measure the page. Exit code 1 if the application writes something wrong."""
    console = Console()
    where = surroundings(None)
    tables = in_browser(changes)
    wrong: list[str] = []
    if application:
        with rig(payments_of_users(records, KEYS), console) as made:
            costs, wrong = page_cost.measure(made, repeat)
        tables.append(("Beside a real application", page_cost.table(costs)))
    for title, grid in tables:
        to_terminal(console, title, grid)
    exit_if_wrong(console, wrong)
    if markdown is not None:
        facts = "\n".join(f"- {name}: {value}" for name, value in where.items() if name != "java")
        shown = "\n\n".join(to_markdown(grid) for _, grid in tables)
        write_section(markdown, HEADING, f"{HEADING}\n\n{_LEGEND}\n{facts}\n\n{shown}\n")
        console.print(f"written to {markdown}")


if __name__ == "__main__":
    typer.run(main)
