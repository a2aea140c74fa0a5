"""The work of the page in its browser, from a trace: CPU time of the page's main thread.

Unlike frames per second, it tells how far the page is from too slow. Other programs on the machine change it little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from playwright.sync_api import Page

_CATEGORIES = ["toplevel", "devtools.timeline"]
_TASK = "ThreadControllerImpl::RunTask"
_LOOK_MS = 50


class Work(NamedTuple):
    """CPU time in ms: of all tasks of the main thread together, and of the longest of them."""

    total_ms: float
    longest_ms: float


def traced(page: Page, seconds: float) -> Work:
    """Returns the work of ``page`` in so many seconds."""
    browser = page.context.browser
    assert browser is not None
    devtools = browser.new_browser_cdp_session()
    events: list[Mapping[str, Any]] = []
    ended: list[bool] = []
    devtools.on("Tracing.dataCollected", lambda part: events.extend(part["value"]))
    devtools.on("Tracing.tracingComplete", lambda _: ended.append(True))
    config = {"includedCategories": _CATEGORIES}
    devtools.send("Tracing.start", {"traceConfig": config, "transferMode": "ReportEvents"})
    page.wait_for_timeout(1000 * seconds)
    devtools.send("Tracing.end")
    while not ended:
        page.wait_for_timeout(_LOOK_MS)
    devtools.detach()
    return work_of(events)


def work_of(events: Iterable[Mapping[str, Any]]) -> Work:
    """Returns the work of the busiest main thread of a page: the browser has threads of its own for empty ones."""
    mains: set[tuple[int, int]] = set()
    tasks: dict[tuple[int, int], list[float]] = defaultdict(list)
    for event in events:
        thread = event["pid"], event["tid"]
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain":
            mains.add(thread)
        elif event["name"] == _TASK and "tdur" in event:
            tasks[thread].append(event["tdur"] / 1000)
    return max((Work(sum(tasks[main]), max(tasks[main], default=0.0)) for main in mains), default=Work(0.0, 0.0))
